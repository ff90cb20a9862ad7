"""The world in which the scenarios play: the built-in catalogue, with waits that fit a demonstration."""

import json
from functools import cache

from joingate_schemas.catalogue import Catalogue
from joingate_schemas.catalogue_file import builtin_catalogue, catalogue_from_json

PERMIT_MS = 5_000
IN_FLIGHT_MS_MAX = 1_000
RELEASE_RETRY_MS = 1_000


@cache
def demo_catalogue() -> Catalogue:
    """The built-in catalogue with short permits and in-flight times, so that doubt is looked into within seconds.

    It has one action more, `answer_ticket`, whose executor `helpdesk` is for whoever tries out the SDK beside `up`.

    In earnest they are as long as the downstream needs: what is too short here makes a look-up prove too much.
    """
    form = json.loads(builtin_catalogue().source)
    form["version"] = f"{form['version']}-demo"
    # The bank is asked before anything is sent to it again: the story is about finding out.
    form["downstreams"]["bank"]["capabilities"] = ["LOOKUP", "IDEMPOTENT_KEY"]
    # Left to the reader of the README: nothing of ours is its executor, so that theirs does not share the commands.
    form["downstreams"]["helpdesk"] = {**form["downstreams"]["messenger"]}
    form["actions"]["answer_ticket"] = {
        **form["actions"]["notify"],
        "arguments": [{**argument, "name": name} for argument, name in
                      zip(form["actions"]["notify"]["arguments"], ("ticket", "text"), strict=True)],
        "business_key": "{ticket}",
        "downstream": "helpdesk",
        "executor": "helpdesk",
    }  # fmt: skip
    for downstream in form["downstreams"].values():
        downstream["in_flight_ms_max"] = IN_FLIGHT_MS_MAX
    for action in form["actions"].values():
        action["permit_ms"] = PERMIT_MS
    for obligation in form["obligations"].values():
        obligation["release_retry_ms"] = RELEASE_RETRY_MS
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return catalogue_from_json(text.encode())
