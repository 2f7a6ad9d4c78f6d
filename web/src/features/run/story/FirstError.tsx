import { Copy } from "lucide-react";
import { useState } from "react";
import { Link } from "react-router";
import { failure, type LogEvent, number, text } from "@/model/events";
import { cutName } from "@/model/names";
import { errorName, framesOf } from "@/model/trace";
import { oneLine } from "@/model/values";
import { Button } from "@/ui/Button";
import { copy } from "@/ui/CopyId";
import { TextView } from "@/ui/JsonView";
import { Panel } from "@/ui/Panel";
import { toast } from "@/ui/Toast";
import { useRun } from "../context";

interface Shown {
  error: { kind: string; message?: string; trace?: string };
  node: string;
  attempt: number;
  seq: number | null;
  /** The attempts that failed. */
  failures: number;
  inputs: unknown;
}

/** The error that began it, with the frames of the user's code; the whole traceback on request. */
export function FirstError() {
  const { run, to } = useRun();
  const [isWhole, setWhole] = useState(false);
  const shown = useFirstError();
  if (!shown) return null;
  const { error, node, attempt, seq, failures, inputs } = shown;
  const frames = framesOf(error.trace ?? "");
  const whole = `${errorName(error.kind)}: ${error.message ?? ""}`;
  const called = inputs === null || inputs === undefined ? null : oneLine(inputs, 240);
  return (
    <Panel
      title="First error"
      note={
        <>
          {node ? `${cutName(node)}, attempt ${attempt}` : "in the workflow’s own code"}
          {seq ? (
            <>
              , <EventLink seq={seq}>event {seq}</EventLink>
            </>
          ) : null}
          {failures > 1 ? `. ${failures} attempts failed` : ""}
        </>
      }
      end={
        <Button
          look="flat"
          small
          onClick={async () => {
            if (await copy(`${run}\n${node}\n${whole}\n\n${error.trace ?? ""}`))
              toast({ tone: "note", title: "The error is copied." });
          }}
        >
          <Copy size={14} aria-hidden /> Copy
        </Button>
      }
    >
      <div className="px-4 py-3">
        <p className="text-read break-words whitespace-pre-wrap">
          <b className="text-fail">{errorName(error.kind)}</b>
          {error.message ? `: ${error.message.slice(0, 4000)}` : ""}
        </p>
        {frames.length ? (
          <ol className="mt-2 overflow-x-auto rounded-control bg-code py-1.5 font-mono text-code">
            {frames.map((frame, at) => (
              <li
                // biome-ignore lint/suspicious/noArrayIndexKey: a recursion has equal frames
                key={at}
                title={`${frame.path}:${frame.line}`}
                className={`flex gap-x-4 px-3 py-0.5 max-md:flex-wrap ${at === frames.length - 1 ? "bg-fail-tint font-semibold" : ""}`}
              >
                <span className="min-w-20 flex-none">
                  {frame.file}:{frame.line}
                </span>
                <span className="min-w-24 flex-none">{frame.name}</span>
                <span
                  className={`break-all max-md:basis-full max-md:pl-3 ${at === frames.length - 1 ? "" : "text-text-2"}`}
                >
                  {frame.code}
                </span>
              </li>
            ))}
          </ol>
        ) : null}
        {called ? (
          <p className="mt-2 text-meta text-text-2">
            Called with{" "}
            <code className="rounded-control bg-code px-1.5 py-0.5 break-words text-text">{called.text}</code>
          </p>
        ) : null}
        <p className="mt-3 flex flex-wrap gap-x-4 gap-y-2 text-meta">
          {error.trace ? (
            <button type="button" onClick={() => setWhole(!isWhole)} className="link" aria-expanded={isWhole}>
              {isWhole ? "Hide the traceback" : "Whole traceback"}
            </button>
          ) : null}
          {node ? (
            <>
              <Link to={to({ tab: "logs", node, attempt: null })} className="link">
                {failures > 1 ? `Logs of the ${failures} attempts` : "Its logs"}
              </Link>
              <Link to={to({ tab: "values", node, attempt: failures > 1 ? null : attempt })} className="link">
                {failures > 1 ? "Compare the attempts" : "Its inputs"}
              </Link>
            </>
          ) : null}
        </p>
        {isWhole ? <TextView text={error.trace ?? ""} name={`${run}-traceback.txt`} className="mt-2" /> : null}
      </div>
    </Panel>
  );
}

export function EventLink({ seq, children }: { seq: number; children?: React.ReactNode }) {
  const { to } = useRun();
  return (
    <Link to={to({ tab: "events", event: seq })} className="link" aria-label={children ? undefined : `Event ${seq}`}>
      {children ?? seq}
    </Link>
  );
}

/** The first failure of the node that the run failed in, or that is being tried again. */
function useFirstError(): Shown | null {
  const { detail, events, state, place, isComplete } = useRun();
  if (!isComplete || place.at === null) {
    const { error } = detail;
    const failed = detail.nodes.find((node) => node.node === error?.node) ?? detail.nodes.find((node) => node.error);
    const own = error ?? failed?.error;
    if (!own || (!error && detail.status !== "running" && detail.status !== "waiting")) return null;
    const first = failed ? firstFailure(events, failed.node) : null;
    return {
      error: first?.error ?? own,
      node: failed?.node ?? "",
      attempt: first?.attempt ?? failed?.attempt ?? 1,
      seq: first?.seq ?? null,
      failures: first?.failures ?? (failed ? failed.attempt - failed.crashes : 0),
      inputs: failed?.inputs ?? null,
    };
  }
  const node = state.failed_node || [...state.nodes].find(([, each]) => each.error)?.[0] || "";
  const first = firstFailure(events, node);
  if (!first)
    return state.error ? { error: state.error, node: "", attempt: 1, seq: null, failures: 0, inputs: null } : null;
  return { ...first, node, inputs: state.nodes.get(node)?.started?.inputs ?? null };
}

function firstFailure(events: readonly LogEvent[], node: string) {
  let first: LogEvent | null = null;
  let failures = 0;
  for (const event of events) {
    if (event.type !== "NodeFailed" && event.type !== "NodeScheduled") continue;
    if (text(event, "node") !== node) continue;
    if (event.type === "NodeScheduled") {
      if (event.fields.cause === "reset") {
        first = null;
        failures = 0;
      }
      continue;
    }
    first ??= event;
    failures += 1;
  }
  const error = first && failure(first);
  return first && error ? { error, attempt: number(first, "attempt", 1), seq: first.seq, failures } : null;
}
