"""Why a question has no answer: the errors of the read side, the same from a store and over HTTP."""


class ReadError(Exception):
    """A question that has no answer; the message is a sentence for whoever asked."""


class NotFound(ReadError):
    """Nothing is known by this id."""


class BadQuestion(ReadError):
    """The question itself is at fault: an unknown filter, a broken cursor."""


class Unreachable(ReadError):
    """The API did not answer, or could not."""
