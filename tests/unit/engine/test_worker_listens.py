"""The address at which a worker is reached from other hosts."""

from __future__ import annotations

import pytest

from riprap.codec.errors import JobFailed
from riprap.engine.wire.network import Network
from riprap.engine.worker.worker import listen


def test_an_address_that_the_host_has_lost_is_named_with_its_agent() -> None:
    network = Network(1 << 20)
    with pytest.raises(JobFailed, match=r"listen at 192\.0\.2\.7, which the agent of h2 has") as refused:
        listen(network, "192.0.2.7", "h2")  # of TEST-NET-1: nobody's
    assert "start that agent again" in refused.value.remedy
    assert listen(network, "127.0.0.1", "h2").startswith("tcp://127.0.0.1:")
    network.close()
