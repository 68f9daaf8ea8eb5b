"""Runs vLLM in this process with Rowen's scheduler and prints what the device was told: `MODEL`."""

import json
import os
import sys

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def main() -> None:
    from runtime.recorder import Recorder
    from vllm import EngineArgs, LLMEngine, SamplingParams

    from rowen.crds.names import ENGINE_SOCKET_ENV, SPATIAL_TERMS_ENV
    from rowen.runtime import native
    from rowen.runtime.vllm.plugin import register

    recorder = Recorder()
    # Before the scheduler is imported, which takes the name from there.
    native.online = lambda: recorder  # type: ignore[assignment]
    os.environ[ENGINE_SOCKET_ENV] = "/nonexistent"
    os.environ[SPATIAL_TERMS_ENV] = json.dumps(
        {each: {"percentile": 99, "seconds": 80} for each in ("ttft", "tpot")}  # never missed
    )
    register()
    engine = LLMEngine.from_engine_args(
        EngineArgs(
            model=sys.argv[1],
            enforce_eager=True,
            kv_cache_memory_bytes=32 * 2**20,
            distributed_executor_backend="vllm.v1.executor.uniproc_executor.UniProcExecutor",
            disable_log_stats=True,
        )
    )
    phases = []

    def told() -> None:
        made_of = [each[1:] for each in recorder.compositions]
        phases.append(
            {
                "events": recorder.events[:],
                "steps": recorder.steps[:],
                "made_of": made_of,
                "shares": recorder.shares[:],
                "in_flight": recorder.in_flight,
            }
        )
        recorder.events.clear()
        recorder.steps.clear()
        recorder.compositions.clear()
        recorder.shares.clear()

    parameters = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    told()
    for number in range(3):
        engine.add_request(f"finished-{number}", "Hello, my kettle is too hot.", parameters)
    while engine.has_unfinished_requests():
        engine.step()
    told()
    engine.add_request("aborted", "Hello", SamplingParams(max_tokens=200, ignore_eos=True))
    for _ in range(3):
        engine.step()
    told()
    engine.abort_request(["aborted"])
    while engine.engine_core.engine_core.scheduler.has_requests():
        engine.step()
    told()
    print(json.dumps(phases))


if __name__ == "__main__":
    main()
