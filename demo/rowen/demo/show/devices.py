"""The devices in the live view: who holds each, and what rides in its engine."""

from rich.table import Table
from rich.text import Text

from rowen.crds.harvest.device_detail import DeviceDetail
from rowen.crds.job.offline_job_status import CO_SERVE
from rowen.demo.show.world import DeviceRecord, World

_GATE_TITLES = ("harvested", "preemptions", "stopped in p50 / p99", "most per request")
_RIDE_TITLES = ("seats taken", "tokens a second", "tokens ridden", "of the steps")


def holder(device: DeviceDetail) -> str:
    """Who holds a device now: `online`, `offline: JOBS` or `nobody`; and who rides in its engine: `riding: JOBS`."""
    attached = [tenant for tenant in device.tenants if tenant.attached]
    behind = [tenant.job or tenant.pod.name for tenant in attached if tenant.mode != CO_SERVE]
    riders = [tenant.job or tenant.pod.name for tenant in attached if tenant.mode == CO_SERVE]
    held = []
    # The engine itself counts as one in flight, also while it computes batch rows alone.
    if device.in_flight > (1 if riders else 0):
        held.append("online")
    elif device.gate_open and behind:
        held.append(f"offline: {', '.join(behind)}")
    if riders:
        held.append(f"riding: {', '.join(riders)}")
    return "; ".join(held) or "nobody"


def device_line(record: DeviceRecord) -> str:
    """Who holds a device, and its figures."""
    device = record.harvest
    if device.co_serving is None:
        return f"{holder(device)}, harvested {device.harvested_fraction:.0%}, {device.preemptions} preemptions"
    seats, rate, ridden, steps = _ride_cells(record)
    return f"{holder(device)}, seats {seats}, {rate} tokens/s, {ridden} tokens ridden, in {steps} of the steps"


def device_table(world: World) -> Table:
    """All devices; what is behind gates, or, where an engine takes jobs in, what rides."""
    rides = any(record.harvest.co_serving is not None for record in world.devices.values())
    table = Table(box=None, expand=True)
    for title in ("device", "held by", "idle", *(_RIDE_TITLES if rides else _GATE_TITLES)):
        table.add_column(title)
    for (node, name), record in sorted(world.devices.items()):
        held = holder(record.harvest)
        style = "blue" if held.startswith("online") else "dim" if held == "nobody" else "green"
        cells = _ride_cells(record) if rides else _gate_cells(record.harvest)
        table.add_row(f"{node}/{name}", Text(held, style=style), f"{record.harvest.idle_fraction:.0%}", *cells)
    return table


def _gate_cells(device: DeviceDetail) -> tuple[str, ...]:
    stops = device.stops
    return (
        f"{device.harvested_fraction:.0%}",
        str(device.preemptions),
        f"{stops.p50 * 1000:.2f} / {stops.p99 * 1000:.2f} ms" if stops else "-",
        str(device.per_request_max),
    )


def _ride_cells(record: DeviceRecord) -> tuple[str, ...]:
    found, tenants = record.harvest.co_serving, record.harvest.tenants
    if found is None:
        return ("-",) * len(_RIDE_TITLES)
    taken = sum(tenant.mode == CO_SERVE for tenant in tenants)
    rate = found.forward_tokens_per_second + found.solo_tokens_per_second + found.row_tokens_per_second
    ridden = record.rides[-1].ridden.since(record.rides[0].ridden).tokens if record.rides else 0
    return (
        f"ended: {found.ended}" if found.ended else f"{taken} of {found.seats}",
        f"{rate:.0f}",
        f"{ridden:,}",
        f"{found.riding_fraction:.0%}",
    )
