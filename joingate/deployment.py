"""The room that makes a broker ready for a gate: topics created and checked, schemas published, the canary flown."""

from joingate.faults import FaceError
from joingate.settings import Settings
from joingate_schemas.canary import CanaryFailed, LeakyBroker, fly_canary
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.codec import Codec
from joingate_schemas.topics import TopicMismatch, TopicSpec, TopicsUnavailable, publish_schemas


def executors_of(catalogue: Catalogue) -> list[str]:
    """Everyone who gets commands, sorted."""
    return sorted({action.executor for action in catalogue.actions.values()})


def every_topic(settings: Settings, catalogue: Catalogue) -> list[TopicSpec]:
    """Every topic as it should be, sorted by name: the gate's, the canary's, and those that the reconciler makes."""
    from joingate_processors.reconciler.own_topics import specs as reconcilers

    made = [
        *settings.topics.specs(settings.partitions, executors_of(catalogue)),
        *reconcilers(settings.prefix, settings.partitions),
        TopicSpec(f"{settings.prefix}canary", 1, {"cleanup.policy": "delete", "retention.ms": "3600000"}, ()),
    ]
    return sorted(made, key=lambda spec: spec.name)


def create_topics(settings: Settings, catalogue: Catalogue) -> list[str]:
    """Create what is missing, see that all of it fits, and publish our schemas. Returns what was created.

    Raises FaceError.
    """
    topics, executors = settings.topics, executors_of(catalogue)
    try:
        created = topics.create(settings.bootstrap_servers, settings.partitions, executors, client=settings.client)
        topics.check(settings.bootstrap_servers, settings.partitions, executors, client=settings.client)
        publish_schemas(settings.bootstrap_servers, topics, Codec(), client=settings.client)
    except (TopicMismatch, TopicsUnavailable) as error:
        raise FaceError(str(error)) from error
    return created


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
