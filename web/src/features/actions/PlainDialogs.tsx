import { useQuery } from "@tanstack/react-query";
import {
  Ban,
  Braces,
  CirclePause,
  FileCode2,
  GitBranch,
  GitFork,
  RotateCw,
  Stethoscope,
  Trash2,
  X,
} from "lucide-react";
import { type ReactNode, useState } from "react";
import { useNavigate } from "react-router";
import { answer, api } from "@/api/client";
import { keys } from "@/api/queries";
import { opensBranch } from "@/model/actions";
import { counted } from "@/model/durations";
import { plainName, shortId } from "@/model/names";
import { Button } from "@/ui/Button";
import { Comment } from "@/ui/Comment";
import { CopyId } from "@/ui/CopyId";
import { Dialog } from "@/ui/Dialog";
import { DryRun } from "@/ui/DryRun";
import { Field, INPUT, Tick } from "@/ui/Field";
import type { DialogProps } from "./ActionDialogs";
import { PlanPart } from "./PlanPart";
import { useActions, useBusy } from "./store";
import { usePlan } from "./usePlan";

export default function PlainDialogs(props: DialogProps) {
  switch (props.asked.kind) {
    case "cancel":
      return <CancelDialog {...(props as DialogProps<"cancel">)} />;
    case "pause":
      return <PauseDialog {...(props as DialogProps<"pause">)} />;
    case "reject":
      return <RejectDialog {...(props as DialogProps<"reject">)} />;
    case "decide":
      return <DecideDialog {...(props as DialogProps<"decide">)} />;
    case "command":
      return <CommandDialog {...(props as DialogProps<"command">)} />;
    case "repair":
      return <RepairDialog {...(props as DialogProps<"repair">)} />;
    case "fork":
      return <ForkDialog {...(props as DialogProps<"fork">)} />;
    case "migrate":
      return <MigrateDialog {...(props as DialogProps<"migrate">)} />;
    case "delete":
      return <DeleteDialog {...(props as DialogProps<"delete">)} />;
    case "activate":
      return <ActivateDialog {...(props as DialogProps<"activate">)} />;
    default:
      return null;
  }
}

/** The reason of an action, and where it is kept. */
export function Reason({
  value,
  onChange,
  note = "kept in the log",
}: {
  value: string;
  onChange: (value: string) => void;
  note?: string;
}) {
  return (
    <Field label="Reason" note={note}>
      {(attributes) => (
        <input
          {...attributes}
          className={INPUT}
          value={value}
          maxLength={1000}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

const Parts = ({ children }: { children: ReactNode }) => <div className="flex flex-col gap-3">{children}</div>;

function CancelDialog({ detail, close }: DialogProps<"cancel">) {
  const { run } = detail;
  const [reason, setReason] = useState("");
  const [force, setForce] = useState(false);
  const plan = usePlan(run, { action: "cancel", reason, force });
  const busy = useBusy("cancel", run);
  const asks = detail.questions.length;
  const isCleaning = detail.status === "compensating";
  return (
    <Dialog
      open
      onClose={close}
      title={`Cancel ${shortId(run)}?`}
      actions={
        <>
          <Button look="flat" onClick={close}>
            Do not cancel
          </Button>
          <Button
            look="danger"
            busy={busy}
            busyText="Cancelling…"
            onClick={async () => {
              if (await useActions.getState().cancelWorkflow(run, { reason, force })) close();
            }}
          >
            <Ban size={16} aria-hidden /> Cancel the run
          </Button>
        </>
      }
    >
      <Parts>
        <p>
          {isCleaning ? "It is being cancelled and its code cleans up. " : "Nothing more begins in it"}
          {isCleaning
            ? ""
            : asks === 0
              ? ". "
              : asks === 1
                ? ", and its open question is withdrawn. "
                : `, and its ${asks} open questions are withdrawn. `}
          A cancelled run cannot be resumed; you can go back in it or fork it.
          {detail.parent ? " The parent waits for this run. Cancelling it raises an error there." : ""}
        </p>
        <Reason value={reason} onChange={setReason} />
        <Tick checked={force} onChange={setForce}>
          Skip the clean-up of its code: the run ends at once
        </Tick>
        <PlanPart plan={plan} after={detail.at} />
      </Parts>
    </Dialog>
  );
}

function DeleteDialog({ detail, close }: DialogProps<"delete">) {
  const { run } = detail;
  const [reason, setReason] = useState("");
  const [isChecked, setChecked] = useState(false);
  const busy = useBusy("delete", run);
  const [why] = detail.actions.find((action) => action.action === "delete")?.effects ?? [];
  return (
    <Dialog
      open
      onClose={close}
      title={`Delete ${shortId(run)}?`}
      actions={
        <>
          <Button look="flat" autoFocus onClick={close}>
            Keep the run
          </Button>
          <Button
            look="danger"
            busy={busy}
            busyText="Deleting…"
            disabled={why !== undefined && !isChecked}
            onClick={async () => {
              if (await useActions.getState().deleteWorkflow(run, { reason, force: why !== undefined })) close();
            }}
          >
            <Trash2 size={16} aria-hidden /> Delete the run
          </Button>
        </>
      }
    >
      <Parts>
        <p>
          The log, the log lines and the values of run <code className="break-all">{run}</code> of {detail.workflow} are
          removed. <b>This cannot be undone.</b> The id{detail.key ? " and the idempotency key" : ""} cannot be used
          again.
        </p>
        {why ? (
          <Tick checked={isChecked} onChange={setChecked}>
            Delete it although {why}
          </Tick>
        ) : null}
        <Reason value={reason} onChange={setReason} note="shown in place of the run" />
      </Parts>
    </Dialog>
  );
}

function PauseDialog({ detail, close }: DialogProps<"pause">) {
  const { run } = detail;
  const [reason, setReason] = useState("");
  const plan = usePlan(run, { action: "pause", reason });
  const busy = useBusy("pause", run);
  return (
    <Dialog
      open
      onClose={close}
      title={`Pause ${shortId(run)}?`}
      actions={
        <>
          <Button look="flat" onClick={close}>
            Leave it running
          </Button>
          <Button
            look="primary"
            busy={busy}
            busyText="Pausing…"
            onClick={async () => {
              if (await useActions.getState().pauseWorkflow(run, reason)) close();
            }}
          >
            <CirclePause size={16} aria-hidden /> Pause
          </Button>
        </>
      }
    >
      <Parts>
        <p>
          Nodes at work have 5 s to end or reach a checkpoint. Resume continues the run.
          {detail.children.some((child) => !child.status) ? " Its child runs are not paused." : ""}
        </p>
        <Reason value={reason} onChange={setReason} />
        <PlanPart plan={plan} after={detail.at} />
      </Parts>
    </Dialog>
  );
}

function RejectDialog({ detail, close }: DialogProps<"reject">) {
  const { run } = detail;
  const question = detail.questions[0];
  const [comment, setComment] = useState("");
  const busy = useBusy("answer", run);
  if (!question) return null;
  return (
    <Dialog
      open
      onClose={close}
      title={`Reject: ${question.text || plainName(question.id)}`}
      actions={
        <>
          <Button look="flat" onClick={close}>
            Back
          </Button>
          <Button
            look="danger"
            busy={busy}
            busyText="Rejecting…"
            onClick={async () => {
              if (await useActions.getState().decideWorkflow(run, false, question.id, comment)) close();
            }}
          >
            <X size={16} aria-hidden /> Reject
          </Button>
        </>
      }
    >
      <Parts>
        <p>The run continues with the answer no.</p>
        <Comment value={comment} onChange={setComment} />
      </Parts>
    </Dialog>
  );
}

/** A held run: a person finds out what the log cannot tell. */
function DecideDialog({ detail, close }: DialogProps<"decide">) {
  const { run, error } = detail;
  const { ask, resumeWorkflow } = useActions.getState();
  const [isChecked, setChecked] = useState(false);
  const busy = useBusy("resume", run);
  const inside = detail.nodes.find((node) => node.node === error?.node && node.status === "running")?.node;
  const isDiverged = error?.kind === "outlast.run_diverged";
  const name = plainName(inside ?? "");
  const resume = detail.actions.find((action) => action.action === "resume");
  const must = isDiverged
    ? "The code that began this run is deployed again"
    : inside
      ? `I have checked that ${name} did not take effect`
      : "";
  return (
    <Dialog
      open
      onClose={close}
      title={`Resume ${shortId(run)}?`}
      actions={
        <>
          <Button look="flat" onClick={close}>
            Do nothing
          </Button>
          {isDiverged && detail.actions.some((action) => action.action === "migrate") ? (
            <Button onClick={() => ask({ kind: "migrate", run })}>
              <FileCode2 size={16} aria-hidden /> Move to the current code…
            </Button>
          ) : null}
          {inside && detail.actions.some((action) => action.action === "jump") ? (
            <Button onClick={() => ask({ kind: "result", run, node: inside })}>
              <Braces size={16} aria-hidden /> Give its result…
            </Button>
          ) : null}
          <Button
            look="primary"
            busy={busy}
            busyText="Resuming…"
            disabled={must !== "" && !isChecked}
            title={must !== "" && !isChecked ? "Tick the sentence first" : undefined}
            onClick={async () => {
              if (await resumeWorkflow(run, { events: resume?.appends ?? [] })) close();
            }}
          >
            <RotateCw size={16} aria-hidden /> {inside ? `Do ${name} again` : "Resume"}
          </Button>
        </>
      }
    >
      <Parts>
        {isDiverged ? (
          <>
            <p>
              <b>The code of this run was changed, and its log does not fit it.</b> {detail.reason}
            </p>
            <p>Deploy the old code again and resume, or move the run to the current code.</p>
          </>
        ) : inside ? (
          <p>
            <b>
              {error?.kind === "outlast.node_interrupted"
                ? `${name} was interrupted by the loss of its worker or by a pause, and is marked as not repeatable.`
                : detail.reason || `${name} was interrupted.`}
            </b>{" "}
            It may have taken effect. Check that first.
          </p>
        ) : (
          <p>{detail.reason || "The run is held until a person decides."}</p>
        )}
        {must ? (
          <Tick checked={isChecked} onChange={setChecked}>
            {must}
          </Tick>
        ) : null}
        {resume?.appends ? <DryRun events={resume.appends} effects={resume.effects} after={detail.at} /> : null}
      </Parts>
    </Dialog>
  );
}

/** The code was changed: what the current code keeps of the log, and what it leaves. */
function MigrateDialog({ detail, close }: DialogProps<"migrate">) {
  const { run } = detail;
  const [reason, setReason] = useState("");
  const [children, setChildren] = useState<"cancel" | "keep">("cancel");
  const busy = useBusy("migrate", run);
  const { data, error } = useQuery({
    queryKey: [...keys.run(run), "replay", detail.at],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}/replay", { params: { path: { run } }, signal })),
    retry: false,
  });
  return (
    <Dialog
      open
      onClose={close}
      title={`Move ${shortId(run)} to the current code?`}
      actions={
        <>
          <Button look="flat" onClick={close}>
            Leave the run as it is
          </Button>
          <Button
            look="primary"
            busy={busy}
            busyText="Moving…"
            disabled={!data}
            onClick={async () => {
              if (await useActions.getState().migrateWorkflow(run, { reason, children })) close();
            }}
          >
            <FileCode2 size={16} aria-hidden /> Move the run
          </Button>
        </>
      }
    >
      <Parts>
        {error ? (
          <p role="alert">{error.message}</p>
        ) : !data ? (
          <p className="text-text-2">Comparing the log with the current code of the server…</p>
        ) : data.agrees ? (
          <p>
            The current code agrees with all {data.events} events of this run. It continues with that code, without a
            new branch.
          </p>
        ) : (
          <>
            <p className="break-words">{data.divergence}</p>
            <p>
              {data.upto === 0
                ? "A new branch begins at the start of the run."
                : `The current code agrees with the log up to event ${data.upto}. A new branch begins there.`}{" "}
              {data.left
                ? `${counted(data.left, "completed node")} after it stay readable on branch ${data.branch}; the new branch reuses their results where the current code requests them in the same way.`
                : ""}
            </p>
            {detail.children.length ? (
              <Tick checked={children === "keep"} onChange={(keep) => setChildren(keep ? "keep" : "cancel")}>
                Let child runs that were started after it continue
              </Tick>
            ) : null}
          </>
        )}
        <Reason value={reason} onChange={setReason} />
      </Parts>
    </Dialog>
  );
}

function CommandDialog({ detail, close }: DialogProps<"command">) {
  const app = detail.entry.split(":")[0] || "MODULE";
  const command = `outlast worker --app ${app}`;
  return (
    <Dialog
      open
      onClose={close}
      title={`Start a worker that knows ${detail.workflow}`}
      actions={
        <Button look="primary" onClick={close}>
          Close
        </Button>
      }
    >
      <Parts>
        <p>Run this where the code of {detail.workflow} can be imported, with the store of this server:</p>
        <CopyId id={command} shown={command} className="rounded-control bg-code px-3 py-2" />
        <p className="text-text-2">The run then starts by itself.</p>
      </Parts>
    </Dialog>
  );
}

function RepairDialog({ detail, close }: DialogProps<"repair">) {
  const { run } = detail;
  const busy = useBusy("repair", run);
  const { data, error } = useQuery({
    queryKey: keys.doctor(run),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}/doctor", { params: { path: { run } }, signal })),
  });
  const repair = data?.repairs[0];
  const finding = data?.findings.find((each) => each.code === repair?.code);
  return (
    <Dialog
      open
      onClose={close}
      title={repair ? `Repair ${repair.code}?` : "Repair"}
      actions={
        <>
          <Button look="flat" onClick={close}>
            Change nothing
          </Button>
          <Button
            look="primary"
            busy={busy}
            busyText="Repairing…"
            disabled={!repair}
            onClick={async () => {
              if (await useActions.getState().repairWorkflow(run)) close();
            }}
          >
            <Stethoscope size={16} aria-hidden /> Repair {repair?.code}
          </Button>
        </>
      }
    >
      {error ? <p className="text-fail">{error.message}</p> : null}
      {data && !repair ? <p>There is nothing to repair.</p> : null}
      {repair ? (
        <Parts>
          <p>{finding?.sentence ?? repair.reason}.</p>
          {finding?.cause ? <p className="text-text-2">Likely cause: {finding.cause}.</p> : null}
          <DryRun events={repair.appends} effects={repair.effects} after={detail.at} />
        </Parts>
      ) : null}
    </Dialog>
  );
}

function ForkDialog({ detail, asked, close }: DialogProps<"fork">) {
  const { run } = detail;
  const navigate = useNavigate();
  const [at, setAt] = useState(String(asked.at ?? ""));
  const [id, setId] = useState("");
  const [title, setTitle] = useState(detail.title);
  const busy = useBusy("fork", run);
  return (
    <Dialog
      open
      onClose={close}
      title={`Fork ${shortId(run)}`}
      actions={
        <>
          <Button look="flat" onClick={close}>
            Do not fork
          </Button>
          <Button
            look="primary"
            busy={busy}
            busyText="Forking…"
            onClick={async () => {
              const place = at.trim() ? { at: /^\d+$/.test(at.trim()) ? Number(at) : at.trim() } : {};
              const made = await useActions.getState().forkWorkflow(run, { ...place, id: id.trim(), title });
              if (!made) return;
              close();
              navigate(`/runs/${encodeURIComponent(made)}`);
            }}
          >
            <GitFork size={16} aria-hidden /> Fork the run
          </Button>
        </>
      }
    >
      <Parts>
        <p>
          A new run begins with the history of this one up to a place, and continues by itself. This run is not changed.
        </p>
        <Field label="Place" note="an event, a node or a question; the last one if empty">
          {(attributes) => (
            <input {...attributes} className={INPUT} value={at} onChange={(event) => setAt(event.target.value)} />
          )}
        </Field>
        <Field label="Title" note="text">
          {(attributes) => (
            <input {...attributes} className={INPUT} value={title} onChange={(event) => setTitle(event.target.value)} />
          )}
        </Field>
        <Field label="Id of the new run" note="one is made if empty">
          {(attributes) => (
            <input {...attributes} className={INPUT} value={id} onChange={(event) => setId(event.target.value)} />
          )}
        </Field>
      </Parts>
    </Dialog>
  );
}

function ActivateDialog({ detail, asked, close }: DialogProps<"activate">) {
  const { run } = detail;
  const { data } = useQuery({
    queryKey: [...keys.run(run), "branches"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}/branches", { params: { path: { run } }, signal })),
  });
  const others = data?.branches.filter((branch) => !branch.current) ?? [];
  const [chosen, setChosen] = useState<number | null>(asked.branch ?? null);
  const branch = chosen ?? others.at(-1)?.branch ?? null;
  const [reason, setReason] = useState("");
  const plan = usePlan(run, branch === null ? null : { action: "activate", branch, reason });
  const opened = opensBranch(plan.data?.would_append ?? []);
  const busy = useBusy("activate", run);
  return (
    <Dialog
      open
      onClose={close}
      title={branch === null ? "Go on from another branch" : `Go on from branch ${branch}`}
      actions={
        <>
          <Button look="flat" onClick={close}>
            Keep the run as it is
          </Button>
          <Button
            look="primary"
            busy={busy}
            busyText="Opening…"
            disabled={!plan.isCurrent || !opened || branch === null}
            onClick={async () => {
              if (branch === null) return;
              if (await useActions.getState().activateBranch(run, { branch, reason })) close();
            }}
          >
            <GitBranch size={16} aria-hidden /> Open branch {opened?.branch ?? ""}
          </Button>
        </>
      }
    >
      <Parts>
        <p>
          A new branch continues from the end of the older one. If that one had ended, the run ends the same way. What
          is on branch {detail.branch} stays readable.
        </p>
        <Field label="Branch">
          {(attributes) => (
            <select
              {...attributes}
              className={INPUT}
              value={branch ?? ""}
              onChange={(event) => setChosen(Number(event.target.value))}
            >
              {others.map((each) => (
                <option key={each.branch} value={each.branch}>
                  Branch {each.branch}: {each.held ? "held" : each.status}, {counted(each.nodes, "node")}
                  {each.reason ? `, ${each.reason}` : ""}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Reason value={reason} onChange={setReason} />
        {branch === null ? null : <PlanPart plan={plan} after={detail.at} />}
      </Parts>
    </Dialog>
  );
}
