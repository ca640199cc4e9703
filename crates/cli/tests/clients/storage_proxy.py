"""Calls a storage controller through the registry's proxy with plain grpcio: no generated code, the
messages are written by hand, as any client of any service could."""
import sys

import grpc

REGISTRY = sys.argv[1]


def text(field, value):
    """A string field of a protobuf message."""
    data = value.encode()
    return bytes([field << 3 | 2, len(data)]) + data


def number(field, value):
    """A varint field."""
    out = bytes([field << 3])
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def call(channel, method, message, controller=None):
    stub = channel.unary_unary(method)
    metadata = [("controllerid", controller)] if controller else []
    try:
        return stub(message, metadata=metadata, timeout=30), grpc.StatusCode.OK
    except grpc.RpcError as error:
        return error.details(), error.code()


def expect(found, wanted):
    assert found == wanted, f"{found} instead of {wanted}"


with grpc.insecure_channel(REGISTRY) as channel:
    provision = "/oim.v0.Controller/ProvisionMallocBDev"
    check = "/oim.v0.Controller/CheckMallocBDev"
    expect(call(channel, check, text(1, "py"))[1], grpc.StatusCode.UNIMPLEMENTED)
    expect(call(channel, check, text(1, "py"), "host-2")[1], grpc.StatusCode.UNAVAILABLE)
    expect(call(channel, check, text(1, "py"), "host-1")[1], grpc.StatusCode.NOT_FOUND)
    expect(call(channel, provision, text(1, "py") + number(2, 1000), "host-1")[1],
           grpc.StatusCode.INVALID_ARGUMENT)
    expect(call(channel, provision, text(1, "py") + number(2, 1 << 20), "host-1"),
           (b"", grpc.StatusCode.OK))
    expect(call(channel, check, text(1, "py"), "host-1"), (b"", grpc.StatusCode.OK))
    expect(call(channel, provision, text(1, "py") + number(2, 1 << 21), "host-1")[1],
           grpc.StatusCode.ALREADY_EXISTS)
    expect(call(channel, provision, text(1, "py") + number(2, 0), "host-1")[1],
           grpc.StatusCode.OK)
    expect(call(channel, "/any.Service/Method", b"", "host-1")[1], grpc.StatusCode.UNIMPLEMENTED)
    listed, code = call(channel, "/oim.v0.Registry/GetControllers", b"")
    expect(code, grpc.StatusCode.OK)
    assert b"host-1" in listed, listed

print("all good")
