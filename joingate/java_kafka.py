"""The room that knows what a Kafka in Java needs of this machine: a Java, and Kafka's jars, fetched once with Maven."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

KAFKA_VERSION = "4.4.0"
JAVA_VERSION_MIN = 17

# Kafka brings log4j's core but no binding for slf4j 1.7, which it logs through.
_POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>joingate</groupId><artifactId>local-kafka</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.5</version>
    </dependency>
  </dependencies>
</project>
"""
_MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class KafkaUnavailableError(RuntimeError):
    """There is no broker to be had; the text is one sentence for the person at the terminal."""


def progress(text: str) -> None:
    """Tell the person at the terminal what takes a while; on stderr, since stdout may be read by a program."""
    print(f"joingate: {text}", file=sys.stderr, flush=True)


def first_error(text: str) -> str:
    """The line of a Java program's output that tells most: its first error, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Exception" in line or " ERROR " in line or " FATAL " in line]
    return (errors or lines[-1:] or ["it said nothing"])[0]


def find_java() -> str | None:
    """The path of a Java that is new enough, JAVA_HOME's first, or None."""
    candidates = [shutil.which("java")]
    if home := os.environ.get("JAVA_HOME"):
        candidates.insert(0, shutil.which("java", path=str(Path(home) / "bin")))
    for java in filter(None, candidates):
        # macOS has a `java` that only tells you to install one, hence the look at what it prints.
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
        version = re.search(r'version "(\d+)', told)
        if version and int(version[1]) >= JAVA_VERSION_MIN:
            return java
    return None


def cache_root() -> Path:
    """The folder, outside every project tree, in which fetched Kafka versions are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "joingate"


def jars_folder() -> Path:
    """Where the jars of this version are, once fetched."""
    return cache_root() / f"kafka-{KAFKA_VERSION}"


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` among processes; the kernel frees it when its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def fetch_jars() -> Path:
    """The folder with Kafka's jars; fetched with Maven on first use, once even when many processes ask.

    Raises KafkaUnavailableError when Maven is missing or fails.
    """
    return fetch_with_maven(f"Apache Kafka {KAFKA_VERSION}", jars_folder(), _POM, "about 50 MB")


def fetch_with_maven(what: str, jars: Path, pom: str, size: str) -> Path:
    """The folder `jars`, filled on first use with what `pom` names; `what` and `size` are for the person who waits.

    Raises KafkaUnavailableError when Maven is missing or fails.
    """
    if jars.is_dir():
        return jars
    with file_lock(jars.with_name(f"{jars.name}.lock")):
        if jars.is_dir():
            return jars
        maven = shutil.which("mvn")
        if maven is None:
            raise KafkaUnavailableError(f"{what} is not in the cache yet: install Maven (mvn).")
        progress(f"fetching {what} with Maven, once ({size})")
        # Fetch aside and rename: a run that is cut short leaves no half-filled folder under the real name.
        with tempfile.TemporaryDirectory(dir=jars.parent, prefix="fetch-") as work:
            Path(work, "pom.xml").write_text(pom)
            command = [maven, "-q", "-B", _MAVEN_GOAL, "-DincludeScope=runtime", "-DoutputDirectory=libs"]
            done = subprocess.run(
                command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                errors = [line for line in done.stdout.splitlines() if "ERROR" in line] or ["it said nothing"]
                raise KafkaUnavailableError(f"Maven could not fetch {what}: {errors[0]}")
            Path(work, "libs").rename(jars)
    return jars
