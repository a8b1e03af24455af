"""Describes results as a Provenance Run Crate: RO-Crate 1.1 with the Workflow Run RO-Crate profiles 0.5."""
