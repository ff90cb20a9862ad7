"""The room for the topics that are the reconciler's own: answers on their way back, and the changelog of its table.

They are made before its client joins the group. Left to Faust, they appear while it joins: its assignor passes over a
topic that the metadata do not show yet, and nobody reads it before the metadata are looked at again, minutes later.
"""

from confluent_kafka.admin import AdminClient

from joingate_processors.reconciler.settings import ReconcilerSettings
from joingate_schemas.topics import TopicMismatch, TopicSpec, create_topics, partition_counts

TABLE = "open"
ANSWERS_KEPT_S = 86_400.0
_ANSWERS = {"cleanup.policy": "delete", "retention.ms": str(int(ANSWERS_KEPT_S * 1000))}
_CHANGELOG = {"cleanup.policy": "compact"}


def app_id(prefix: str) -> str:
    """The name of the Faust app, which is also that of its consumer group."""
    return f"{prefix}reconciler"


def answers_topic(prefix: str) -> str:
    """The name of the topic of answers."""
    return f"{prefix}reconciler-answers"


def specs(prefix: str, partitions: int) -> list[TopicSpec]:
    """Both topics as they should be, with as many partitions as `in-doubt` has. Faust gives the changelog its name."""
    return [
        TopicSpec(answers_topic(prefix), partitions, _ANSWERS, ()),
        TopicSpec(f"{app_id(prefix)}-{TABLE}-changelog", partitions, _CHANGELOG, ()),
    ]


def make_ready(settings: ReconcilerSettings, partitions: int) -> None:
    """Create what is missing, and return when every partition has a leader.

    Raises TopicsUnavailable; TopicMismatch where one is there with another number of partitions.
    """
    wanted, servers = specs(settings.prefix, partitions), settings.bootstrap_servers
    create_topics(servers, wanted, replication=settings.replication_factor, client=settings.client)
    found = partition_counts(AdminClient({**settings.client, "bootstrap.servers": servers}), servers)
    for spec in wanted:
        if found.get(spec.name) != partitions:
            raise TopicMismatch(
                f"the topic {spec.name} has {found.get(spec.name, 0)} partitions and {settings.prefix}in-doubt has "
                f"{partitions}: put in-doubt back as it was, or use another prefix, for a topic is never re-keyed; it "
                "is tried again"
            )
