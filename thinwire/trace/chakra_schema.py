"""The messages of a Chakra execution trace that thinwire writes.

Their names, fields, numbers and types are those of the published schema. Messages, fields and values that
thinwire does not use are left out; a reader with the whole schema finds them unset.

Source: schema/protobuf/et_def.proto of https://github.com/mlcommons/chakra, commit 6dc63e1 (MIT licence).
"""

from enum import IntEnum
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

VERSION = "0.0.4"  # of the schema, as its own tools write it into `GlobalMetadata`
_PACKAGE = "ChakraProtoMsg"


class NodeType(IntEnum):
    """What a node does."""

    INVALID_NODE = 0
    METADATA_NODE = 1
    COMP_NODE = 4
    COMM_SEND_NODE = 5
    COMM_RECV_NODE = 6
    COMM_COLL_NODE = 7


class CollectiveCommType(IntEnum):
    """Which collective a node of type `COMM_COLL_NODE` is; the value of its attribute `comm_type`."""

    ALL_REDUCE = 0
    ALL_GATHER = 2
    BROADCAST = 5


# Fields of each message: name, number, type. `*` marks a repeated field, and `?` one of the choice `value`.
_MESSAGES = {
    "AttributeProto": (
        ("name", 1, "string"),
        ("int32_val", 7, "int32?"),
        ("int64_val", 9, "int64?"),
        ("bool_val", 27, "bool?"),
        ("string_val", 29, "string?"),
    ),
    "GlobalMetadata": (("version", 1, "string"), ("attr", 2, "AttributeProto*")),
    "Node": (
        ("id", 1, "uint64"),
        ("name", 2, "string"),
        ("type", 3, "NodeType"),
        ("ctrl_deps", 4, "uint64*"),
        ("data_deps", 5, "uint64*"),
        ("start_time_micros", 6, "uint64"),
        ("duration_micros", 7, "uint64"),
        ("attr", 10, "AttributeProto*"),
    ),
}
_TYPES = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in ("string", "int32", "int64", "uint64", "bool")
}


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="thinwire/trace/chakra", package=_PACKAGE, syntax="proto3")
    for kind in (NodeType, CollectiveCommType):
        enum = file.enum_type.add(name=kind.__name__)
        for entry in kind:
            enum.value.add(name=entry.name, number=entry.value)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, type_ in fields:
            _add_field(message, field, number, type_)
    return file


def _add_field(message: Any, name: str, number: int, type_: str) -> None:
    plain = type_.rstrip("*?")
    label = FieldDescriptorProto.LABEL_REPEATED if "*" in type_ else FieldDescriptorProto.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if plain in _TYPES:
        field.type = _TYPES[plain]
    else:
        field.type_name = f".{_PACKAGE}.{plain}"
        is_message = plain in _MESSAGES
        field.type = FieldDescriptorProto.TYPE_MESSAGE if is_message else FieldDescriptorProto.TYPE_ENUM
    if "?" in type_:
        if not message.oneof_decl:
            message.oneof_decl.add(name="value")
        field.oneof_index = 0


# A pool of its own: another package of this process may have loaded the published schema.
_POOL = DescriptorPool()
_POOL.Add(_file())
Node: Any = GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.Node"))
GlobalMetadata: Any = GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.GlobalMetadata"))
