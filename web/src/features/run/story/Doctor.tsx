import { useQuery } from "@tanstack/react-query";
import { Check, FlaskConical, Stethoscope } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { answer, api, type View } from "@/api/client";
import { keys, useMay } from "@/api/queries";
import { moment } from "@/model/durations";
import { Button } from "@/ui/Button";
import { DryRun } from "@/ui/DryRun";
import { LoadError } from "@/ui/LoadError";
import { Panel } from "@/ui/Panel";
import { Skeleton } from "@/ui/Skeleton";
import { useActions, useBusy } from "../../actions/store";
import { useRun } from "../context";
import { EventLink } from "./FirstError";

type Finding = View<"FindingView">;
type Repair = View<"RepairView">;

/** What the doctor finds: each with its proof, its likely cause, and the dry run of its repair. */
export function Doctor() {
  const { run, detail } = useRun();
  const { data, error, refetch, dataUpdatedAt, isFetching } = useQuery({
    queryKey: keys.doctor(run),
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/runs/{run}/doctor", { params: { path: { run }, query: { blobs: false } }, signal })),
  });
  const state = `${detail.status} ${detail.held} ${detail.branch}`;
  const [examined, setExamined] = useState(state);
  useEffect(() => {
    if (examined === state) return;
    setExamined(state);
    void refetch();
  }, [examined, state, refetch]);
  return (
    <Panel
      title={
        <span className="flex items-center gap-2">
          <Stethoscope size={16} aria-hidden /> Doctor
        </span>
      }
      end={
        data ? (
          <button
            type="button"
            onClick={() => void refetch()}
            disabled={isFetching}
            className="text-meta text-text-2 hover:underline"
            title="Examine it again"
          >
            checked {moment(dataUpdatedAt, Date.now())}
          </button>
        ) : null
      }
    >
      {!data && error ? <LoadError what="The doctor’s findings" error={error} retry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton lines={3} label="The doctor examines the run" /> : null}
      {data && !data.findings.length ? (
        <p className="flex items-center gap-2 px-4 py-3 text-text-2">
          <Check size={16} aria-hidden className="text-done" /> Nothing is the matter.
        </p>
      ) : null}
      {data?.findings.map((finding) => {
        const repair = data.repairs.find((each) => each.code === finding.code);
        return <FindingPart key={`${finding.code} ${finding.events.join()}`} finding={finding} repair={repair} />;
      })}
    </Panel>
  );
}

const TINTS = {
  repairable: "bg-wait-tint text-wait",
  reported: "bg-held-tint text-held",
  consistent: "bg-done-tint text-done",
};

function FindingPart({ finding, repair }: { finding: Finding; repair: Repair | undefined }) {
  const { detail } = useRun();
  if (finding.standing === "consistent")
    return (
      <p className="flex gap-2 border-line px-4 py-3 text-meta text-text-2 not-first:border-t">
        <Check size={16} aria-hidden className="flex-none text-done" />
        <span className="min-w-0 break-words">
          <b>{finding.code}</b> {sentence(finding.sentence)} <Proof events={finding.events} />
        </span>
      </p>
    );
  return (
    <div className="border-line px-4 py-3 not-first:border-t">
      <p className="flex gap-2">
        <span className={`h-fit rounded-control px-1.5 py-0.5 text-meta font-semibold ${TINTS[finding.standing]}`}>
          {finding.code}
        </span>
        <span className="min-w-0 break-words">{sentence(finding.sentence)}</span>
      </p>
      <dl className="mt-2 grid grid-cols-[88px_minmax(0,1fr)] gap-x-2 gap-y-1 text-meta">
        {finding.events.length ? (
          <Fact name="Proof">
            <Proof events={finding.events} />
          </Fact>
        ) : null}
        {finding.cause ? <Fact name="Likely cause">{sentence(finding.cause)}</Fact> : null}
        {!repair && finding.actions.length ? (
          <Fact name="To do">
            <ul className="flex flex-col gap-1">
              {finding.actions.map((action) => (
                <li key={action} className="break-words">
                  {sentence(action)}
                </li>
              ))}
            </ul>
          </Fact>
        ) : null}
      </dl>
      {repair ? (
        <div className="mt-2 flex flex-col gap-2">
          {repair.appends.length ? (
            <DryRun events={repair.appends} effects={repair.effects} after={detail.at} />
          ) : (
            <Effects effects={repair.effects} />
          )}
          <RepairButton code={finding.code} />
        </div>
      ) : null}
    </div>
  );
}

function Proof({ events }: { events: number[] }) {
  return events.map((seq, at) => (
    <span key={seq}>
      {at ? ", " : ""}
      <EventLink seq={seq}>event {seq}</EventLink>
    </span>
  ));
}

/** The dry run of a repair that appends nothing. */
function Effects({ effects }: { effects: string[] }) {
  return (
    <div className="rounded-control border border-dashed border-line-strong text-meta">
      <p className="flex items-center gap-1.5 border-b border-dashed border-line-strong px-3 py-1.5 text-text-2">
        <FlaskConical size={14} aria-hidden /> Dry run: no event would be appended
      </p>
      <ul className="px-3 py-1.5">
        {effects.map((effect) => (
          <li key={effect} className="break-words">
            {effect}
          </li>
        ))}
      </ul>
    </div>
  );
}

function RepairButton({ code }: { code: string }) {
  const { run } = useRun();
  const may = useMay("runs:repair");
  const busy = useBusy("repair", run);
  if (!may) return null;
  return (
    <div>
      <Button onClick={() => void useActions.getState().repairWorkflow(run)} busy={busy} busyText="Repairing…">
        Repair {code}
      </Button>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-text-2">{name}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </>
  );
}

/** The text as a sentence; one that begins with a command keeps it as it is typed. */
const sentence = (text: string): string => {
  const begun = text.startsWith("outlast ") ? text : `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
};
