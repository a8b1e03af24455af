"""How payloads and lists of tensors are laid out to be sent between processes."""

import random

import torch

from thinwire.traffic.ledger import KINDS
from thinwire.traffic.payload import DTYPES
from thinwire.transport import wire_format


def random_tensor(chance: random.Random) -> torch.Tensor:
    """Of any type and up to four dimensions, which may be empty, in any order in memory."""
    shape = [chance.choice([0, 1, 2, 3, 5]) for _ in range(chance.randrange(5))]
    generator = torch.Generator().manual_seed(chance.randrange(2**31))
    tensor = torch.randint(-100, 100, shape, generator=generator).to(chance.choice(DTYPES))
    if tensor.dim() > 1 and chance.random() < 0.5:
        tensor = tensor.transpose(0, -1)
    if tensor.dim() > 0 and chance.random() < 0.3:
        tensor = tensor[::2]
    return tensor


def random_row(chance: random.Random) -> torch.Tensor:
    """Of any type and length, from every so many elements of another."""
    numbers = [chance.randrange(-100, 100) for _ in range(chance.choice([0, 1, 2, 7, 100]))]
    return torch.tensor(numbers).to(chance.choice(DTYPES))[:: chance.choice([1, 2, 7])]


def test_a_payload_comes_back_as_it_was():
    for seed in range(200):
        comes_back(seed)


def comes_back(seed):
    chance = random.Random(seed)
    kinds = chance.sample(KINDS, chance.randrange(len(KINDS) + 1))
    payload = {kind: random_row(chance) for kind in kinds}
    header, body = wire_format.pack(payload, ragged=seed % 2 == 0)
    assert (header.shape, header.dtype) == ((wire_format.HEADER,), torch.int64)
    assert (body.dim(), body.dtype) == (1, torch.uint8)
    assert wire_format.body_bytes(header) == len(body)
    assert wire_format.is_ragged(header) == (seed % 2 == 0)
    # The body alone with its length, as the receiver has it.
    back = wire_format.unpack(header, body.clone())
    assert list(back) == list(payload)
    for kind, tensor in payload.items():
        assert (back[kind].dtype, back[kind].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(back[kind], tensor)


def test_tensors_lie_where_they_can_be_used():
    payload = {"control": torch.ones(3, dtype=torch.bool), "values": torch.ones(2, dtype=torch.float64)}
    header, body = wire_format.pack(payload, ragged=False)
    back = wire_format.unpack(header, body)
    assert back["values"].data_ptr() == body.data_ptr() + 8
    assert len(body) == 24


def test_what_is_packed_is_a_copy():
    tensor = torch.ones(3)
    header, body = wire_format.pack({"values": tensor}, ragged=False)
    tensor.zero_()
    assert wire_format.unpack(header, body)["values"].tolist() == [1, 1, 1]


def test_the_bytes_between_tensors_are_always_zero():
    payload = {"control": torch.ones(3, dtype=torch.bool), "values": torch.ones(1)}
    _, body = wire_format.pack(payload, ragged=False)
    assert body.tolist()[3:8] == [0] * 5
    assert body.tolist()[12:] == [0] * 4


def test_tensors_of_one_type_go_together():
    tensors = [torch.zeros(1), torch.zeros(2).half(), torch.zeros(3), torch.zeros(4).double()]
    assert [[len(t) for t in alike] for alike in wire_format.by_dtype(tensors)] == [[1, 3], [2], [4]]
    assert wire_format.by_dtype([]) == []


def test_tensors_end_to_end_come_back_in_their_shapes():
    chance = random.Random(0)
    tensors = [random_tensor(chance).to(torch.float32) for _ in range(60)]
    row = wire_format.Pool().take(tensors)
    wire_format.fill(row, tensors)
    assert row.tolist() == [number for tensor in tensors for number in tensor.flatten().tolist()]
    for part, tensor in zip(wire_format.parts(row, tensors), tensors, strict=True):
        assert torch.equal(part, tensor)


def test_a_pool_reuses_what_was_returned_to_it():
    pool, like = wire_format.Pool(), [torch.zeros(2), torch.zeros(3)]
    first = pool.take(like)
    second = pool.take(like)
    assert first.data_ptr() != second.data_ptr()
    pool.give_back(first)
    assert pool.take([torch.zeros(5)]) is first
    assert pool.take([torch.zeros(5).double()]).dtype == torch.float64
    pool.give_back(second)
    assert len(pool.take([torch.zeros(6)])) == 6
    assert pool.take([torch.zeros(5)]) is second


def test_chunks_hold_every_number_once_and_in_order():
    tensors = [torch.arange(7), torch.arange(7, 9).view(2, 1), torch.arange(0), torch.arange(9, 20)]
    chunks = list(wire_format.in_chunks(tensors, 4))
    assert torch.cat([piece for chunk in chunks for piece in chunk]).tolist() == list(range(20))
    assert all(sum(map(len, chunk)) < 2 * 4 for chunk in chunks)
    assert list(wire_format.in_chunks([], 4)) == []
