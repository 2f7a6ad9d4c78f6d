import { Cpu } from "lucide-react";
import { useState } from "react";
import { Link } from "react-router";
import type { View } from "@/api/client";
import { useWorkers } from "@/api/queries";
import { counted } from "@/model/durations";
import { shortId } from "@/model/names";
import { Button } from "@/ui/Button";
import { CopyId } from "@/ui/CopyId";
import { Since } from "@/ui/Duration";
import { EmptyState } from "@/ui/EmptyState";
import { LoadError } from "@/ui/LoadError";
import { Moment, ZoneNote } from "@/ui/Moment";
import { PageHeading } from "@/ui/PageHeading";
import { Skeleton } from "@/ui/Skeleton";
import { CELL, Table } from "@/ui/Table";

/** The workers: alive or gone, what they know, which runs they hold. */
export default function WorkersPage() {
  const found = useWorkers();
  const workers = found.data?.workers;
  const alive = workers?.filter((worker) => worker.live).length ?? 0;
  return (
    <>
      <PageHeading
        title="Workers"
        beside={workers ? <span className="text-text-2">{counted(alive, "worker")} alive</span> : null}
      />
      <section className="mt-3 overflow-hidden rounded-panel border border-line bg-surface">
        {!workers ? (
          found.error ? (
            <LoadError what="The workers" error={found.error} retry={() => void found.refetch()} />
          ) : (
            <Skeleton />
          )
        ) : workers.length ? (
          <Table label="Workers" columns={["Worker", "State", "Where", "Knows", "Holds"]}>
            {workers.map((worker) => (
              <Row key={worker.worker} worker={worker} />
            ))}
          </Table>
        ) : (
          <EmptyState icon={Cpu} title="There is no worker.">
            Nothing advances the runs of this store. Start one with <code>outlast worker --app MODULE</code>.
          </EmptyState>
        )}
      </section>
      <p className="mt-3 text-meta text-text-3">
        <ZoneNote /> A worker that is gone loses its runs to another one when its lease ends.
      </p>
    </>
  );
}

function Row({ worker }: { worker: View<"WorkerView"> }) {
  return (
    <tr>
      <td className={`${CELL} whitespace-nowrap`}>
        <CopyId id={worker.worker} />
      </td>
      <td className={`${CELL} whitespace-nowrap`}>
        <span className={`inline-flex items-center gap-1.5 ${worker.live ? "text-done" : "text-text-2"}`}>
          <Cpu size={16} aria-hidden /> {worker.live ? "Alive" : "Gone"}
        </span>
        <span className="block text-meta text-text-2">
          {worker.live ? (
            <>
              lease until <Moment time={worker.expires} />
            </>
          ) : worker.last_seen ? (
            <>
              last heard of <Since from={worker.last_seen} /> ago
            </>
          ) : null}
        </span>
      </td>
      <td className={CELL} data-label="Where">
        {worker.host || "unknown"}
        <span className="block text-meta whitespace-nowrap text-text-2">
          {worker.pid ? `process ${worker.pid}` : null}
          {worker.started && worker.live ? (
            <>
              , up for <Since from={worker.started} />
            </>
          ) : null}
        </span>
        {Math.abs(worker.skew_ms) >= SKEW_MS ? (
          <span className="block text-meta text-wait">
            its clock is {(Math.abs(worker.skew_ms) / 1000).toFixed(1)} s {worker.skew_ms > 0 ? "ahead" : "behind"}
          </span>
        ) : null}
      </td>
      <td className={CELL} data-label="Knows">
        <Knows workflows={worker.workflows} />
        {worker.queues ? (
          <span className="block text-meta text-text-2">
            only of {worker.queues.length === 1 ? "the queue" : "the queues"} {worker.queues.join(", ")}
          </span>
        ) : null}
      </td>
      <td className={CELL} data-label="Holds">
        <Holds runs={worker.runs} />
      </td>
    </tr>
  );
}

const SHOWN = 6;
/** From this difference to the clock of the store on, it is shown. */
const SKEW_MS = 1000;

function Knows({ workflows }: { workflows: string[] }) {
  const own = workflows.filter((name) => !name.startsWith("outlast.")).sort();
  if (!own.length) return <span className="text-text-2">{workflows.length ? "Bulk actions only" : "Nothing"}</span>;
  return (
    <span className="break-words">
      {own.map((name, place) => (
        <span key={name}>
          {place ? ", " : ""}
          <Link to={`/workflows/${encodeURIComponent(name)}`} className="link">
            {name}
          </Link>
        </span>
      ))}
    </span>
  );
}

function Holds({ runs }: { runs: string[] }) {
  const [isAll, setAll] = useState(false);
  if (!runs.length) return <span className="text-text-2">No run</span>;
  const shown = isAll ? runs : runs.slice(0, SHOWN);
  return (
    <div className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
      <span>{counted(runs.length, "run")}:</span>
      {shown.map((run) => (
        <Link key={run} to={`/runs/${run}`} className="link" title={run}>
          <code>{shortId(run)}</code>
        </Link>
      ))}
      {runs.length > shown.length ? (
        <Button small look="flat" onClick={() => setAll(true)}>
          Show all
        </Button>
      ) : null}
    </div>
  );
}
