"""The engine's own door: faults set while it runs, by message and by command line; what is no plan changes nothing."""

import asyncio

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.cli import main
from smg_simulator.answers.faults import KINDS, Fault, Faults
from smg_simulator.server._pb import control_pb2 as pb
from smg_simulator.server.control import SERVICE, apply_faults, fault_plan, faults_request
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = pytest.mark.anyio

FAULTS = st.builds(
    Fault,
    st.sampled_from(KINDS),
    after=st.integers(0, 2**32 - 1),
    seconds=st.none() | st.floats(0, 86_400),
    status=st.sampled_from(["", "INTERNAL", "UNAVAILABLE"]),
    message=st.text(min_size=1, max_size=20),
)


@given(st.lists(st.none() | FAULTS, max_size=10), st.dictionaries(FAULTS, st.floats(0, 0.1), max_size=5))
def test_a_plan_survives_the_wire(script: list[Fault | None], rates: dict[Fault, float]) -> None:
    sent = pb.SetFaultsRequest.FromString(faults_request(*script, rates=rates).SerializeToString())
    faults = Faults([Fault("cut")])
    apply_faults(sent, faults)

    assert faults.rates == rates
    assert [faults.draw() for _ in range(len(script) + 1)] == [Fault("cut"), *script]
    assert fault_plan(faults, 3).met == 3


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (pb.SetFaultsRequest(script=[pb.Turn(fault=pb.Fault(kind="explode"))]), "is no fault"),
        (pb.SetFaultsRequest(rates=[pb.Rate(fault=pb.Fault(kind="cut"), share=1.5)]), "at most 1 together"),
        (pb.SetFaultsRequest(rates=[pb.Rate(fault=pb.Fault(kind="cut"), share=float("nan"))]), "at most 1 together"),
        (pb.SetFaultsRequest(rates=[pb.Rate(fault=pb.Fault(kind="cut"), share=0.1)] * 2), "two rates"),
        (pb.SetFaultsRequest(script=[pb.Turn(fault=pb.Fault(kind="stall", seconds=float("inf")))]), "seconds"),
        (pb.SetFaultsRequest(script=[pb.Turn(fault=pb.Fault(kind="cut", status="OK"))]), "is no gRPC status"),
        (pb.SetFaultsRequest(script=[pb.Turn()] * 10_001), "are waiting"),
    ],
)
def test_what_is_no_plan_changes_nothing(request_: pb.SetFaultsRequest, said: str) -> None:
    faults = Faults([Fault("cut")], {Fault("stall"): 0.5})
    with pytest.raises(ValueError, match=said):
        apply_faults(request_, faults)

    assert (faults.waiting, dict(faults.rates)) == (1, {Fault("stall"): 0.5})


async def test_bad_messages_are_refused_by_name() -> None:
    async with SimulatedEngine() as engine, grpc.aio.insecure_channel(engine.target.removeprefix("grpc://")) as channel:
        call = channel.unary_unary(f"/{SERVICE}/SetFaults")
        for wrong in (b"\xff\xff\xff", faults_request(rates={Fault("cut"): 0.5}).SerializeToString() * 2):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(wrong)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_command_sets_asks_and_clears(capsys: pytest.CaptureFixture[str]) -> None:
    async with SimulatedEngine() as engine:
        for arguments, said in (
            (
                ["--fault", "cut=0.25", "--next", "refuse", "--next", "stall"],
                "shares: cut=0.25; 2 waiting; 0 met so far",
            ),
            ([], "shares: cut=0.25; 2 waiting; 0 met so far"),
            (["--clear"], "shares: none; 0 waiting; 0 met so far"),
        ):
            assert await asyncio.to_thread(main, ["faults", engine.target, *arguments]) == 0
            assert capsys.readouterr().out.strip() == said


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grpc://127.0.0.1:1"], "no simulated engine answers at grpc://127.0.0.1:1"),
        (["127.0.0.1:1"], "has no known scheme"),
        (["grpc://127.0.0.1:1", "--next", "refuze"], "refuze is no fault; did you mean refuse?"),
        (["grpc://127.0.0.1:1", "--fault", "cut=x"], "is no share of requests"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", *arguments]) == 2

    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1
