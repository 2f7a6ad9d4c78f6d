import { Blocks, Play, Unplug } from "lucide-react";
import { Link } from "react-router";
import type { View } from "@/api/client";
import { useMay } from "@/api/queries";
import { counted, duration } from "@/model/durations";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { LoadError } from "@/ui/LoadError";
import { PageHeading } from "@/ui/PageHeading";
import { Skeleton } from "@/ui/Skeleton";
import { CELL, Table } from "@/ui/Table";
import { useKnowing, useStatistics, useWorkflows } from "./data";

/** The workflows that this server can start, and how they went in the last week. */
export default function WorkflowsPage() {
  const found = useWorkflows();
  const workflows = found.data?.workflows;
  return (
    <>
      <PageHeading title="Workflows" />
      <section className="mt-3 overflow-hidden rounded-panel border border-line bg-surface">
        {!workflows ? (
          found.error ? (
            <LoadError what="The workflows" error={found.error} retry={() => void found.refetch()} />
          ) : (
            <Skeleton />
          )
        ) : workflows.length ? (
          <Table label="Workflows" columns={["Workflow", "Known by", "Last 7 days", "Took", "Start"]}>
            {workflows.map((workflow) => (
              <Row key={workflow.workflow} workflow={workflow} />
            ))}
          </Table>
        ) : (
          <EmptyState icon={Blocks} title="This server knows no workflow.">
            Start it with the modules that define them: <code>outlast serve MODULE</code>.
          </EmptyState>
        )}
      </section>
    </>
  );
}

function Row({ workflow }: { workflow: View<"WorkflowView"> }) {
  const { workflow: name, doc } = workflow;
  const knowing = useKnowing(name);
  const statistics = useStatistics(name, 7, 1).data;
  const mayStart = useMay("runs:start");
  return (
    <tr>
      <td className={CELL}>
        <Link to={`/workflows/${encodeURIComponent(name)}`} className="link font-medium">
          {name}
        </Link>
        {doc ? <span className="block text-text-2">{doc.split("\n\n")[0]}</span> : null}
      </td>
      <td className={`${CELL} whitespace-nowrap`} data-label="Known by">
        {knowing === 0 ? (
          <span className="inline-flex items-center gap-1.5 text-wait">
            <Unplug size={16} aria-hidden /> No live worker
          </span>
        ) : knowing === undefined ? (
          "…"
        ) : (
          counted(knowing, "live worker")
        )}
      </td>
      <td className={CELL} data-label="Last 7 days">
        {statistics ? <Went statistics={statistics} /> : "…"}
      </td>
      <td className={`${CELL} whitespace-nowrap`} data-label="Took">
        {statistics?.duration_ms ? (
          <>
            {duration(statistics.duration_ms.p50)}
            <span className="text-text-2"> median, {duration(statistics.duration_ms.p90)} p90</span>
          </>
        ) : (
          <span className="text-text-2">–</span>
        )}
      </td>
      <td className={`${CELL} text-right max-md:text-left`}>
        {mayStart ? (
          <Button small asChild>
            <Link to={`/start/${encodeURIComponent(name)}`}>
              <Play size={14} aria-hidden /> Start
            </Link>
          </Button>
        ) : null}
      </td>
    </tr>
  );
}

/** `40 runs: 34 completed, 6 failed`. */
export function Went({ statistics }: { statistics: View<"StatisticsView"> }) {
  const { runs, completed, failed, cancelled, is_complete } = statistics;
  if (!runs) return <span className="text-text-2">No run</span>;
  const others = runs - completed - failed - cancelled;
  const parts = [
    completed ? `${completed} completed` : "",
    failed ? `${failed} failed` : "",
    cancelled ? `${cancelled} cancelled` : "",
    others ? `${others} not over` : "",
  ].filter(Boolean);
  return (
    <>
      {is_complete ? "" : "The last "}
      {counted(runs, "run")}: {parts.join(", ")}
    </>
  );
}
