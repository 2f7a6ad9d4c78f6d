import { Cpu, Plug } from "lucide-react";
import { Link } from "react-router";
import { useWorkers } from "@/api/queries";
import { counted, duration } from "@/model/durations";
import type { Holding } from "@/model/timeline";
import { Moment } from "@/ui/Moment";
import { Panel } from "@/ui/Panel";
import { ShortId } from "@/ui/ShortId";
import { useRun } from "../context";

const MOST = 12;

/** Which workers had the run, and when nobody had it. */
export function Holders() {
  const { detail, log, place } = useRun();
  const workers = useWorkers().data?.workers;
  const known = workers?.filter((worker) => worker.live && worker.workflows.includes(detail.workflow));
  const all = log.timeline.holdings.filter((each) => place.at === null || each.seq <= place.at);
  const holdings = all.filter(
    (each, at) =>
      (each.how !== "claimed" || each.worker !== all[at - 1]?.worker) &&
      (each.how !== "queued" || all[at + 1]?.how !== "started"),
  );
  const shown = holdings.slice(-MOST);
  return (
    <Panel
      title={
        <span className="flex items-center gap-2">
          <Cpu size={16} aria-hidden /> Who held it
        </span>
      }
      end={
        <Link to="/workers" className="link text-meta">
          Workers
        </Link>
      }
    >
      <ul className="px-4 py-3">
        {holdings.length > MOST ? (
          <li className="text-meta text-text-2">{holdings.length - MOST} earlier ones are not shown.</li>
        ) : null}
        {shown.map((holding, at) => (
          <li key={holding.seq} className="grid grid-cols-[64px_minmax(0,1fr)] gap-2 py-0.5">
            <Moment time={holding.time} className="text-text-2" />
            <span>
              <Words holding={holding} next={shown[at + 1]} />
            </span>
          </li>
        ))}
        {known ? (
          <li className="mt-1 flex items-center gap-2 text-meta text-text-2">
            <Plug size={14} aria-hidden />
            <span>
              {known.length ? counted(known.length, "live worker") : "No live worker"}{" "}
              {known.length > 1 ? "know" : "knows"} <b className="text-text">{detail.workflow}</b>
              {known.length ? ": " : ""}
              {known.slice(0, 3).map((worker, at) => (
                <span key={worker.worker}>
                  {at ? ", " : ""}
                  <ShortId id={worker.worker} />
                </span>
              ))}
            </span>
          </li>
        ) : null}
      </ul>
    </Panel>
  );
}

function Words({ holding, next }: { holding: Holding; next: Holding | undefined }) {
  const worker = <ShortId id={holding.worker} />;
  switch (holding.how) {
    case "queued":
      return <>nobody, in the queue{next ? ` for ${duration(next.time - holding.time)}` : ""}</>;
    case "started":
      return <>the process that created it</>;
    case "claimed":
      return <>worker {worker}</>;
    case "expired":
      return <>worker {worker}, took it over: the one before did not answer</>;
    case "dead":
      return <>worker {worker}, took it over: the one before had died</>;
    case "paused":
      return <>nobody: the run paused</>;
    case "held":
      return <>nobody: the run is held</>;
    default:
      return <>nobody: the run ended</>;
  }
}
