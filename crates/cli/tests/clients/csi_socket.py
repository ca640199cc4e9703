"""Calls a CSI driver on its Unix socket with plain grpcio, as the sidecars of other languages do: with
whatever the library takes for the authority of a path, and with some that people set."""
import sys

import grpc

SOCKET = sys.argv[1]


def calls(**options):
    channel = grpc.insecure_channel(f"unix:{SOCKET}", options=list(options.items()))
    with channel:
        for turn in range(3):
            # The second and third time the client only says "as before".
            ready = channel.unary_unary("/csi.v1.Identity/Probe")(b"", timeout=30)
            assert ready == b"\x0a\x02\x08\x01", ready
            info = channel.unary_unary("/csi.v1.Identity/GetPluginInfo")(
                b"", timeout=30, metadata=[("turn", f"{turn}"), ("long", "x" * 3000)])
            assert info, "a name and a version"
            node = channel.unary_unary("/csi.v1.Node/NodeGetInfo")(b"", timeout=30)
            assert b"host-1" in node, node


calls()
for authority in (SOCKET, "localhost", "unix:/x", "a b"):
    calls(**{"grpc.default_authority": authority})
print("all good")
