"""The software and the machines that the provenance of records names, each as one entity."""

from typing import Any

from thinwire import digests
from thinwire.ro_crate.entities import Entity


class Software:
    """Collects them, because many records name the same."""

    def __init__(self) -> None:
        self._made: dict[str, Entity] = {}

    @property
    def entities(self) -> list[Entity]:
        """All of them, sorted."""
        return [self._made[identifier] for identifier in sorted(self._made)]

    @property
    def engines(self) -> list[str]:
        """The identifiers of all states of the engine."""
        return [identifier for identifier in sorted(self._made) if identifier.startswith("#engine-")]

    def engine(self, provenance: dict[str, Any]) -> str:
        """The identifier of the engine, in the state of its code and with the packages of a record."""
        git, torch = provenance.get("git") or {}, provenance.get("torch_build")
        packages = [f"{name} {version}" for name, version in sorted(provenance.get("packages", {}).items())]
        python = provenance.get("python")
        revision = git.get("revision")
        changes = git.get("changes_sha256")
        about = {
            "@type": "SoftwareApplication",
            "name": "thinwire",
            "description": "The engine: `thinwire train` trains one cell of a suite after the other. "
            f"Revision {revision or 'unknown'}"
            + (f", with changes whose SHA-256 is {changes}." if changes else "."),
            "softwareVersion": provenance.get("thinwire", "unknown"),
            "softwareRequirements": [*([f"Python {python}"] if python else []), *packages],
        }
        if torch and not any(package.startswith("torch ") for package in packages):
            about["softwareRequirements"].append(f"torch {torch}")
        return self._kept("#engine", about)

    def machine(self, provenance: dict[str, Any]) -> str | None:
        """The identifier of the machine of a record, or None."""
        hardware = provenance.get("hardware")
        if not hardware:
            return None
        described = ", ".join(f"{name}: {value}" for name, value in hardware.items() if value is not None)
        return self._kept("#machine", {"@type": "Place", "name": described})

    def environment(self, provenance: dict[str, Any]) -> list[str]:
        """The identifiers of the environment variables that a record has noted."""
        variables = provenance.get("environment", {}).items()
        values = [{"@type": "PropertyValue", "name": name, "value": value} for name, value in variables]
        return [self._kept("#variable", value) for value in values]

    def _kept(self, prefix: str, about: Entity) -> str:
        identifier = f"{prefix}-{digests.of_object(about)[:12]}"
        self._made[identifier] = {"@id": identifier, **about}
        return identifier
