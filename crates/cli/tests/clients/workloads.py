"""Logs and commands of a workload with the Kubernetes client for Python, as its users write it: workloads.py URL"""
import sys
from urllib.parse import urlencode

from kubernetes import client, stream

WORKLOADS = "/apis/apps.orrery.dev/v1/namespaces/default/workloads"


class Workloads:
    """What the client generates for pods, for a resource of ours."""

    def __init__(self, api_client):
        self.api_client = api_client

    def path(self, name, part, query):
        words = [(key, str(value).lower() if isinstance(value, bool) else value) for key, value in query.items()]
        host = self.api_client.configuration.host
        return f"{host}{WORKLOADS}/{name}/{part}?{urlencode(words, doseq=True)}"

    def exec(self, name, _preload_content=True, **query):
        url = self.path(name, "exec", query)
        return self.api_client.call_api("GET", url, header_params={}).response

    def log(self, name, **query):
        answer = self.api_client.call_api("GET", self.path(name, "log", query), header_params={})
        return answer.response


def main():
    configuration = client.Configuration()
    configuration.host = sys.argv[1]
    workloads = Workloads(client.ApiClient(configuration))

    said = stream.stream(workloads.exec, "numbers", command=["sh", "-c", "echo out; echo $ORRERY_WORKLOAD"])
    assert said == "out\nnumbers\n", said

    def begin(command, **more):
        return stream.stream(workloads.exec, "numbers", command=command, _preload_content=False, **more)

    # A terminal, which is told its size.
    shell = begin(["sh"], stdin=True, tty=True)
    shell.write_channel(4, '{"Width": 97, "Height": 31}')
    shell.write_stdin("stty size; exit 5\n")
    shell.run_forever(timeout=60)
    assert "31 97" in shell.read_stdout(), shell.read_all()
    assert shell.returncode == 5, shell.returncode

    # Much more than there is room for on the way, and its end: only the newer protocol can say it.
    count = begin(["wc", "-c"], stdin=True)
    for _ in range(64):
        count.write_stdin("x" * 65_536)
    count.close_channel(0)
    count.run_forever(timeout=60)
    assert count.read_stdout().strip() == str(64 * 65_536), count.read_all()
    assert count.returncode == 0

    nothing = begin(["/no/such/program"])
    nothing.run_forever(timeout=60)
    assert nothing.returncode == 127, nothing.read_all()

    lines = workloads.log("numbers", tailLines=2).read().decode().splitlines()
    assert lines == ["4", "5"], lines
    assert workloads.log("numbers", limitBytes=3).read() == b"1\n2"
    print("all good")


main()
