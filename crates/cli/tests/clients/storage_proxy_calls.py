"""A controller and a client, both plain grpcio, with the registry's proxy between them: every kind of
call, deadlines, cancellation, metadata, compression, large messages, a controller that goes and comes."""
import sys
import threading
from concurrent import futures

import grpc

REGISTRY = sys.argv[1]
CONTROLLER = "python"
SERVICE = "/any.Service/"
BYTES = bytes(range(256))
LARGE = 8 << 20
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
SOON = 60

# Set by the controller when it learns that the caller has gone.
gone = threading.Event()
# Set by the controller when a call has arrived that stays.
arrived = threading.Event()


def text(field, value):
    """A string field of a protobuf message."""
    data = value.encode()
    return bytes([field << 3 | 2, len(data)]) + data


def echo(message, context):
    sent = [(key, value) for key, value in context.invocation_metadata() if key.startswith("x-")]
    context.send_initial_metadata(sent)
    context.set_trailing_metadata([("y-count", str(len(sent))), ("y-bytes-bin", BYTES)])
    return message


def remaining(_, context):
    return str(context.time_remaining()).encode()


def fail(_, context):
    context.set_trailing_metadata([("y-why-bin", BYTES)])
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "größer als 100%\nzweite Zeile")


def count(message, context):
    for number in range(int(message)):
        yield str(number).encode()


def fail_late(_, context):
    yield b"one"
    yield b"two"
    context.abort(grpc.StatusCode.DATA_LOSS, "in the middle")


def total(messages, context):
    return str(sum(len(message) for message in messages)).encode()


def chat(messages, context):
    for message in messages:
        yield message


def large(_, context):
    for _ in range(32):
        yield bytes(1 << 20)


def stay(_, context):
    context.add_callback(gone.set)
    arrived.set()
    gone.wait(SOON)
    yield b"never"


UNARY = {"Echo": echo, "Remaining": remaining, "Fail": fail}
STREAMS = {"Count": count, "FailLate": fail_late, "Large": large, "Stay": stay}


class Service(grpc.GenericRpcHandler):
    def service(self, details):
        name = details.method.removeprefix(SERVICE)
        if name in UNARY:
            return grpc.unary_unary_rpc_method_handler(UNARY[name])
        if name in STREAMS:
            return grpc.unary_stream_rpc_method_handler(STREAMS[name])
        if name == "Total":
            return grpc.stream_unary_rpc_method_handler(total)
        if name == "Chat":
            return grpc.stream_stream_rpc_method_handler(chat)
        return None


def serve(address):
    server = grpc.server(futures.ThreadPoolExecutor(32), options=UNLIMITED)
    server.add_generic_rpc_handlers([Service()])
    port = server.add_insecure_port(address)
    server.start()
    return server, port


def expect(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


META = [("controllerid", CONTROLLER)]


def unary(channel, name, message=b"", **more):
    more.setdefault("timeout", SOON)
    return channel.unary_unary(SERVICE + name).with_call(message, metadata=META, **more)


def failure(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    raise AssertionError("it did not fail")


def check_unary(channel):
    sent = [("x-data-bin", BYTES), ("x-text", "plain, with: signs"), ("x-long", "v" * 6000)]
    stub = channel.unary_unary(SERVICE + "Echo")
    reply, call = stub.with_call(b"hello", metadata=META + sent, timeout=SOON)
    expect(reply, b"hello")
    back = [(key, value) for key, value in call.initial_metadata() if key.startswith("x-")]
    expect(sorted(back), sorted(sent))
    trailing = dict(call.trailing_metadata())
    expect((trailing["y-count"], trailing["y-bytes-bin"]), ("3", BYTES))
    message = b"z" * LARGE
    expect(unary(channel, "Echo", message)[0], message)
    expect(unary(channel, "Echo", message, compression=grpc.Compression.Gzip)[0], message)
    expect(unary(channel, "Echo", b"")[0], b"")
    pending = [
        channel.unary_unary(SERVICE + "Echo").future(str(n).encode(), metadata=META, timeout=SOON)
        for n in range(200)
    ]
    expect([call.result() for call in pending], [str(n).encode() for n in range(200)])


def check_errors(channel):
    error = failure(lambda: unary(channel, "Fail"))
    expect(error.code(), grpc.StatusCode.FAILED_PRECONDITION)
    expect(error.details(), "größer als 100%\nzweite Zeile")
    expect(dict(error.trailing_metadata())["y-why-bin"], BYTES)
    expect(failure(lambda: unary(channel, "Nothing")).code(), grpc.StatusCode.UNIMPLEMENTED)
    seen = []
    stream = channel.unary_stream(SERVICE + "FailLate")(b"", metadata=META, timeout=SOON)
    error = failure(lambda: drain(stream, seen))
    expect((seen, error.code(), error.details()),
           ([b"one", b"two"], grpc.StatusCode.DATA_LOSS, "in the middle"))


def drain(stream, seen):
    for message in stream:
        seen.append(message)


def check_streams(channel):
    stub = channel.unary_stream(SERVICE + "Count")
    numbers = list(stub(b"1000", metadata=META, timeout=SOON))
    expect(numbers, [str(number).encode() for number in range(1000)])
    sizes = [len(part) for part in channel.unary_stream(SERVICE + "Large")(b"", metadata=META)]
    expect(sizes, [1 << 20] * 32)
    parts = (bytes(100_000) for _ in range(100))
    expect(channel.stream_unary(SERVICE + "Total")(parts, metadata=META, timeout=SOON), b"10000000")
    talk(channel, ["a", "b", "c"])


def talk(channel, words, between=lambda: None):
    """Each word is sent when the one before has come back."""
    turn = threading.Semaphore(1)

    def messages():
        for word in words:
            assert turn.acquire(timeout=SOON)
            yield word.encode()

    heard = []
    for reply in channel.stream_stream(SERVICE + "Chat")(messages(), metadata=META, timeout=SOON):
        heard.append(reply.decode())
        if len(heard) == 1:
            between()
        turn.release()
    expect(heard, words)


def check_deadlines(channel):
    # Timeouts are rounded up on their way, so not to the second.
    left = float(unary(channel, "Remaining", timeout=30)[0])
    assert 0 < left < 40, left
    gone.clear()
    arrived.clear()
    stream = channel.unary_stream(SERVICE + "Stay")(b"", metadata=META, timeout=2)
    expect(failure(lambda: next(stream)).code(), grpc.StatusCode.DEADLINE_EXCEEDED)
    assert gone.wait(SOON), "the controller never learned of the deadline"


def check_cancellation(channel):
    gone.clear()
    arrived.clear()
    stream = channel.unary_stream(SERVICE + "Stay")(b"", metadata=META, timeout=SOON)
    assert arrived.wait(SOON)
    stream.cancel()
    assert gone.wait(SOON), "the controller never learned of the cancellation"
    expect(failure(lambda: next(stream)).code(), grpc.StatusCode.CANCELLED)


def check_pings():
    """Pings far more often than a strict server would bear."""
    pings = [("grpc.keepalive_time_ms", 200), ("grpc.keepalive_permit_without_calls", 1),
             ("grpc.http2.max_pings_without_data", 0)]
    with grpc.insecure_channel(REGISTRY, options=pings) as channel:
        gone.clear()
        stream = channel.unary_stream(SERVICE + "Stay")(b"", metadata=META, timeout=3)
        expect(failure(lambda: next(stream)).code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        expect(unary(channel, "Echo", b"still")[0], b"still")


def register(channel, address):
    stub = channel.unary_unary("/oim.v0.Registry/RegisterController")
    expect(stub(text(1, CONTROLLER) + text(2, address), timeout=SOON), b"")


with grpc.insecure_channel(REGISTRY, options=UNLIMITED) as channel:
    server, port = serve("127.0.0.1:0")
    address = f"127.0.0.1:{port}"
    register(channel, address)
    check_unary(channel)
    check_errors(channel)
    check_streams(channel)
    check_deadlines(channel)
    check_cancellation(channel)
    check_pings()

    # The controller says goodbye in the middle of a call: that one ends as it should, and the next one
    # finds the controller that took its place.
    ending = []
    talk(channel, ["before", "after"], lambda: ending.append(server.stop(SOON)))
    assert ending[0].wait(SOON)
    expect(failure(lambda: unary(channel, "Echo")).code(), grpc.StatusCode.UNAVAILABLE)
    server, _ = serve(address)
    expect(unary(channel, "Echo", b"again")[0], b"again")
    server.stop(0)
    register(channel, "")

print("all good")
