"""Kafka Streams on the same work: fetched with Maven, compiled here, run in a JVM of its own."""

import os
import subprocess
import tempfile
from pathlib import Path

from joingate.java_kafka import KAFKA_VERSION, cache_root, fetch_with_maven, find_java
from joingate_schemas.claims import CLAIM_TYPES
from joingate_schemas.codec import Codec

AVRO_VERSION = "1.12.0"
TIMEOUT_S = 180
_POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>joingate</groupId><artifactId>streams-peer</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency><groupId>org.apache.avro</groupId><artifactId>avro</artifactId><version>{AVRO_VERSION}</version></dependency>
  </dependencies>
</project>
"""
_CLAIMS = ("DeclareIntent", "Plan", "Dispatch", "Commit", "Succeed", "Close")


def build(folder: Path) -> tuple[str, str]:
    """The Java to run and the class path of the peer, compiled into `folder`. Raises RuntimeError without a JDK."""
    java = find_java()
    if java is None:
        raise RuntimeError("Kafka Streams needs a JDK of version 17 or newer: install one, or use --without-streams.")
    jars = fetch_with_maven("Kafka Streams", cache_root() / f"streams-{KAFKA_VERSION}", _POM, "about 70 MB")
    source = Path(__file__).parent / "streams" / "StreamsPeer.java"
    javac = Path(java).resolve().with_name("javac")
    subprocess.run([str(javac), "-cp", f"{jars}/*", "-d", str(folder), str(source)], check=True)
    return java, f"{folder}{os.pathsep}{jars}/*"


def run(java: str, class_path: str, bootstrap: str, source: str, sink: str, count: int, codec: Codec) -> None:
    """Decide `count` records of `source` into `sink`."""
    with tempfile.TemporaryDirectory(prefix="joingate-streams-") as work:
        files = []
        for name in _CLAIMS:
            path = Path(work, f"{name}.avsc")
            path.write_text(codec.schema_json(CLAIM_TYPES[name]))
            files.append(str(path))
        command = [java, "-Xmx1g", "-cp", class_path, "StreamsPeer", bootstrap, source, sink, str(count), work, *files]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode:
            raise RuntimeError(f"Kafka Streams failed: {done.stderr.strip().splitlines()[-1:]}")
