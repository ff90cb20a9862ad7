"""The room that makes a broker ready for a gate: topics created and checked, schemas published, the canary flown."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # as its documentation has it

from joingate.faults import FaceError
from joingate.settings import Settings
from joingate_schemas.canary import CanaryFailed, LeakyBroker, fly_canary
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.topics import TIMEOUT_S, TopicMismatch, TopicsUnavailable, publish_schemas


def executors_of(catalogue: Catalogue) -> list[str]:
    """Everyone who gets commands, sorted."""
    return sorted({action.executor for action in catalogue.actions.values()})


def create_topics(settings: Settings, catalogue: Catalogue) -> list[str]:
    """Create what is missing, see that all of it fits, and publish our schemas. Returns what was created.

    Raises FaceError.
    """
    topics, executors = settings.topics, executors_of(catalogue)
    try:
        created = topics.create(settings.bootstrap_servers, settings.partitions, executors, client=settings.client)
        _create_answers(settings)
        topics.check(settings.bootstrap_servers, settings.partitions, executors, client=settings.client)
        publish_schemas(settings.bootstrap_servers, topics, Codec(), client=settings.client)
    except (TopicMismatch, TopicsUnavailable) as error:
        raise FaceError(str(error)) from error
    return created


def _create_answers(settings: Settings) -> None:
    """Create the reconciler's own topic ahead of it.

    It would create it itself, but its client takes part in no partition of a topic that appears after it has joined,
    before it looks at the topics again, minutes later.
    """
    wanted = NewTopic(
        f"{settings.prefix}reconciler-answers", settings.partitions, -1, config={"retention.ms": str(86_400_000)}
    )
    admin = AdminClient({**settings.client, "bootstrap.servers": settings.bootstrap_servers})
    try:
        admin.create_topics([wanted], operation_timeout=TIMEOUT_S)[wanted.topic].result(timeout=2 * TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise TopicsUnavailable(f"The topic {wanted.topic} could not be created: {error}.") from error


def check_topics(settings: Settings, catalogue: Catalogue) -> None:
    """See that all topics are there and fit. Raises FaceError about the first that does not."""
    try:
        settings.topics.check(
            settings.bootstrap_servers, settings.partitions, executors_of(catalogue), client=settings.client
        )
    except (TopicMismatch, TopicsUnavailable) as error:
        raise FaceError(str(error)) from error


def try_canary(settings: Settings) -> None:
    """Try out that the broker hides what is aborted. Raises FaceError."""
    try:
        fly_canary(settings.bootstrap_servers, settings.topics, client=settings.client)
    except (LeakyBroker, CanaryFailed) as error:
        raise FaceError(str(error)) from error
