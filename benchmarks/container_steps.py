"""The steps of the Dockerfile in a plain shell: python -m benchmarks container_steps [--folder DIR].

Docker is not needed: paths of the image lie in an empty folder, whose owner is another user in the end.
Debian packages are only looked up (`apt-get --simulate`). Needs root, to become that other user.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.reporting import write

ROOT = Path(__file__).parents[1]
_INSIDE = re.compile(r"(?<![\w./-])/(opt|source|data)\b")


@dataclass
class Image:
    """A folder that stands for the root of the image."""

    root: Path
    place: Path = field(init=False)
    user: int = 0
    arguments: dict[str, str] = field(default_factory=dict)
    entry: list[str] = field(default_factory=list)
    steps: list[dict[str, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.place = self.root

    def inside(self, text: str) -> str:
        """The same with paths of the image in the folder."""
        return _INSIDE.sub(lambda found: f"{self.root}/{found[1]}", text)

    def do(self, instruction: str, text: str) -> None:
        """One instruction."""
        started = time.monotonic()
        if instruction == "RUN":
            self._run(text)
        elif instruction == "COPY" and "--from" not in text:
            *names, _ = text.split()
            for name in names:
                source, target = ROOT / name, self.place / name
                shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        elif instruction == "WORKDIR":
            self.place = Path(self.inside(text))
            self.place.mkdir(parents=True, exist_ok=True)
        elif instruction == "ARG":
            name, _, value = text.partition("=")
            self.arguments[name] = value.strip('"')
        elif instruction == "USER":
            self.user = int(text)
        elif instruction == "ENTRYPOINT":
            self.entry = [self.inside(word) for word in shlex.split(text.strip("[]").replace(",", " "))]
        said = text if len(text) < 70 else f"{text[:67]}..."
        self.steps.append({"step": f"{instruction} {said}", "seconds": round(time.monotonic() - started, 1)})
        print(self.steps[-1], flush=True)

    def _run(self, text: str) -> None:
        if "apt-get" in text:
            packages = re.search(r"--no-install-recommends ([\w .+-]+)", text)
            assert packages is not None
            simulated = ["apt-get", "--simulate", "install", *packages[1].split()]
            subprocess.run(simulated, check=True, capture_output=True)
        else:
            environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.root), **self.arguments}
            environment |= {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
            subprocess.run(["sh", "-ec", self.inside(text)], check=True, cwd=self.place, env=environment)

    def start(self, *words: str) -> str:
        """The entry point as the user of the image, in the folder of the data."""
        os.chown(self.place, self.user, self.user)
        done = subprocess.run(
            [*self.entry, *words],
            cwd=self.place,
            user=self.user,
            group=self.user,
            extra_groups=[],
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def instructions(text: str) -> list[tuple[str, str]]:
    """Name and text of every instruction."""
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.M))
    return [
        (name, rest.strip())
        for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, help="where the image is laid out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        root = Path(name)
        root.chmod(0o755)
        image = Image(root)
        for instruction, text in instructions((ROOT / "Dockerfile").read_text()):
            image.do(instruction, text)
        shutil.copy(ROOT / "sample_data" / "town.tif", image.place)
        checks = {
            "no argument": "Usage:" in image.start("--help"),
            "classify": bool(image.start("classify", "town.tif", "-o", "maps", "--stac", "--json")),
            "verify": "files are whole" in image.start("verify", "maps"),
            "owner": all(path.stat().st_uid == image.user for path in (image.place / "maps").iterdir()),
        }
        size = sum(file.stat().st_size for file in (root / "opt").rglob("*") if file.is_file())
    lines = ["| Step | seconds |", "|---|---|"]
    lines += [f"| `{step['step']}` | {step['seconds']} |" for step in image.steps]
    lines += ["", f"`/opt/p3vae` has {size / 1e9:.2f} GB. As user {image.user}, without a home folder:"]
    lines += [", ".join(f"{check}: {'well' if well else 'WRONG'}" for check, well in checks.items()) + "."]
    write("container_steps", {"steps": image.steps, "checks": checks, "bytes": size}, "\n".join(lines))


if __name__ == "__main__":
    main()
