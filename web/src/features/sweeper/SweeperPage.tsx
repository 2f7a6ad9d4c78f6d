import { Brush, CircleCheck, FlaskConical } from "lucide-react";
import { useState } from "react";
import { Link } from "react-router";
import { answer, api, type View } from "@/api/client";
import { useMay, useMe } from "@/api/queries";
import { count, counted } from "@/model/durations";
import { shortId } from "@/model/names";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { Field, INPUT } from "@/ui/Field";
import { Notice } from "@/ui/Notice";
import { useOnce } from "@/ui/once";
import { PageHeading } from "@/ui/PageHeading";
import { Panel } from "@/ui/Panel";
import { CELL, Table } from "@/ui/Table";
import { toastProblem } from "@/ui/Toast";

type Report = View<"SweepReportView">;

/** Find runs that should go on and that nobody advances. The dry run comes first. */
export default function SweeperPage() {
  const may = useMay("sweeper:run");
  const role = useMe().data?.role;
  const [minutes, setMinutes] = useState("10");
  const [report, setReport] = useState<Report | null>(null);
  const seconds = Number(minutes) * 60;
  const error =
    minutes.trim() && seconds >= 0 && seconds <= 31_536_000 ? undefined : "A number of minutes, up to 525600.";
  const [sweep, isBusy] = useOnce(async (isDry: boolean) => {
    if (error) return;
    try {
      setReport(await answer(api.POST("/api/v1/sweep", { body: { dry_run: isDry, stale_after: seconds } })));
    } catch (problem) {
      toastProblem(isDry ? "The dry run failed" : "Not swept", problem);
    }
  });
  if (role && !may)
    return (
      <>
        <PageHeading title="Sweeper" />
        <p className="mt-3">Your role, {role}, cannot do this. Ask an admin.</p>
      </>
    );
  return (
    <>
      <PageHeading title="Sweeper" />
      <p className="mt-1 max-w-170 text-text-2">
        It checks every unfinished run, and hands those that should go on and that no worker advances to the next
        worker. Each worker does this by itself every five minutes.
      </p>
      <div className="mt-4 flex flex-wrap items-start gap-4 rounded-panel border border-line bg-surface p-4">
        <div className="w-80 max-md:w-full">
          <Field label="Stalled after" note="minutes without an owner" error={error}>
            {(attributes) => (
              <input
                {...attributes}
                inputMode="decimal"
                value={minutes}
                onChange={(event) => setMinutes(event.target.value)}
                className={INPUT}
              />
            )}
          </Field>
        </div>
        <div className="flex flex-wrap gap-2 md:mt-6">
          <Button look={report?.dry_run ? "plain" : "primary"} busy={isBusy} onClick={() => sweep(true)}>
            <FlaskConical size={16} aria-hidden /> Dry run
          </Button>
          <Button
            look={report?.dry_run ? "primary" : "plain"}
            busy={isBusy}
            busyText="Sweeping…"
            onClick={() => sweep(false)}
          >
            <Brush size={16} aria-hidden /> Sweep now
          </Button>
        </div>
      </div>
      {report ? <Result report={report} /> : null}
    </>
  );
}

function Result({ report }: { report: Report }) {
  const counts: [string, number][] = [
    ["checked", report.scanned],
    ["healthy", report.healthy],
    ["waiting", report.waiting],
    ["stalled", report.stalled],
    [report.dry_run ? "would be handed over" : "handed over", report.recovered],
  ];
  return (
    <Panel
      className="mt-4"
      title={report.dry_run ? "Dry run" : "What was done"}
      note={report.dry_run ? "nothing was changed" : undefined}
    >
      <dl className="flex flex-wrap gap-x-8 gap-y-2 border-b border-line px-4 py-3">
        {counts.map(([name, number]) => (
          <div key={name}>
            <dt className="text-meta text-text-2">{name}</dt>
            <dd className="text-head font-semibold">{count(number)}</dd>
          </div>
        ))}
      </dl>
      {report.runs.length ? (
        <Table label="Runs" columns={["Run", "Why", report.dry_run ? "Would be" : "Became"]}>
          {report.runs.map((each) => (
            <tr key={each.run}>
              <td className={`${CELL} w-60`}>
                <Link to={`/runs/${each.run}`} className="link" title={each.run}>
                  <code>{shortId(each.run)}</code>
                </Link>
              </td>
              <td className={CELL}>
                {each.reason}
                {each.detail ? <span className="text-text-2">: {each.detail}</span> : null}
              </td>
              <td className={CELL}>{each.outcome || <span className="text-text-2">left as it is</span>}</td>
            </tr>
          ))}
        </Table>
      ) : report.scanned ? (
        <div className="p-4">
          <Notice hue="done" icon={CircleCheck}>
            All {counted(report.scanned, "unfinished run")} have an owner or wait for something.
          </Notice>
        </div>
      ) : (
        <EmptyState icon={CircleCheck} title="There is no unfinished run." />
      )}
    </Panel>
  );
}
