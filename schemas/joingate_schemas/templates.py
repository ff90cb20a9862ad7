"""The room for templates of names, as in `window:{business_key}`: the catalogue declares them, steps fill them."""

import re

from joingate_schemas.claims import Arguments, Scalar

_NAME = re.compile(r"\{([^{}]+)\}")


def names_in(template: str) -> tuple[str, ...]:
    """The names that the template waits for, in their order."""
    return tuple(_NAME.findall(template))


def plain(value: Scalar) -> str:
    """The value as part of a name: one entity has one spelling, however a client wrote or typed it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value).strip()


def fill(template: str, business_key: str, arguments: Arguments) -> str:
    """`template` with `{business_key}` and `{argument}` replaced, once. A name that is not given stays as it stands."""

    def given(found: re.Match[str]) -> str:
        name = found[1]
        if name in arguments:
            return plain(arguments[name])
        return business_key if name == "business_key" else found[0]

    return _NAME.sub(given, template)
