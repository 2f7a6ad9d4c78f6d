import { useVirtualizer } from "@tanstack/react-virtual";
import { Braces, GitCompare } from "lucide-react";
import { type ReactNode, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { attemptsByNode, type NodeAttempt } from "@/model/attempts-of";
import { differences } from "@/model/difference";
import { counted, duration } from "@/model/durations";
import { cutName, plainName } from "@/model/names";
import { messageOf } from "@/model/trace";
import { oneLine } from "@/model/values";
import { EmptyState } from "@/ui/EmptyState";
import { INPUT } from "@/ui/Field";
import { Moment } from "@/ui/Moment";
import { useIsWide, useRowHeight } from "@/ui/media";
import { Panel } from "@/ui/Panel";
import { Segments } from "@/ui/Tabs";
import { useRun } from "../context";
import { TypeNote, ValueView } from "../ValueView";

const RUN = "";

/** What the run and each of its nodes were given and returned, attempt by attempt. */
export default function Values() {
  const { log, version, place, go, isComplete } = useRun();
  const late = useDeferredValue(version);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the log changes in place, with its version
  const nodes = useMemo(
    () => attemptsByNode(place.at === null ? log.events : log.events.slice(0, place.at)),
    [log, late, place.at],
  );
  const node = place.node !== null && nodes.has(place.node) ? place.node : RUN;
  return (
    <div className="grid items-start gap-4 md:grid-cols-[260px_minmax(0,1fr)]">
      <Chooser
        nodes={nodes}
        chosen={node}
        choose={(name) => go({ node: name || null, attempt: null }, { replace: true })}
      />
      {node === RUN ? <RunValues /> : <NodeValues key={node} node={node} attempts={nodes.get(node) ?? []} />}
      {place.node !== null && node === RUN && isComplete ? (
        <p className="text-text-2 md:col-start-2">This run has no node {plainName(place.node)} at this time.</p>
      ) : null}
    </div>
  );
}

function Chooser({
  nodes,
  chosen,
  choose,
}: {
  nodes: Map<string, NodeAttempt[]>;
  chosen: string;
  choose: (node: string) => void;
}) {
  const [text, setText] = useState("");
  const names = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    return [RUN, ...nodes.keys()].filter((name) => !wanted || name.toLowerCase().includes(wanted));
  }, [nodes, text]);
  const isWide = useIsWide(700);
  const box = useRef<HTMLDivElement>(null);
  const height = useRowHeight();
  const rows = useVirtualizer({
    count: names.length,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    overscan: 10,
  });
  const at = names.indexOf(chosen);
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current && at > 0) rows.scrollToIndex(at, { align: "center" });
    isFirst.current = false;
  }, [at, rows]);
  if (!isWide)
    return (
      <select aria-label="Node" className={INPUT} value={chosen} onChange={(event) => choose(event.target.value)}>
        <option value={RUN}>The run itself</option>
        {[...nodes.keys()].map((name) => (
          <option key={name} value={name}>
            {plainName(name)}
          </option>
        ))}
      </select>
    );
  return (
    <Panel className="md:sticky md:top-16">
      <div className="border-b border-line p-2">
        <input
          type="search"
          aria-label="Find a node"
          placeholder={`Find in ${counted(nodes.size, "node")}`}
          className={INPUT}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </div>
      <div ref={box} className="max-h-[min(70vh,640px)] overflow-y-auto">
        <ul aria-label="Nodes" className="relative" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const name = names[row.index] ?? RUN;
            const own = nodes.get(name);
            const last = own?.at(-1);
            return (
              <li
                key={row.key}
                className="absolute inset-x-0"
                style={{ height: row.size, transform: `translateY(${row.start}px)` }}
              >
                <button
                  type="button"
                  aria-pressed={name === chosen}
                  onClick={() => choose(name)}
                  title={name}
                  className="flex h-full w-full items-center gap-2 px-3 text-left hover:bg-hover aria-pressed:bg-selected aria-pressed:font-semibold"
                >
                  <span className="min-w-0 flex-1 truncate">{name === RUN ? "The run itself" : cutName(name, 30)}</span>
                  {own && own.length > 1 ? (
                    <span className="text-meta font-normal text-text-3">{own.length}×</span>
                  ) : null}
                  {last?.error && last.ended !== null ? (
                    <span className="text-meta font-normal text-fail">failed</span>
                  ) : null}
                </button>
              </li>
            );
          })}
        </ul>
      </div>
    </Panel>
  );
}

function RunValues() {
  const { run, detail, log, state, place } = useRun();
  const params = log.event(1)?.fields.params ?? detail.params;
  const result = place.at === null ? detail.result : state.output;
  const isOver = place.at === null ? detail.status === "completed" : state.base === "completed";
  return (
    <Panel title="The run itself">
      <div className="flex flex-col gap-4 px-4 py-3">
        <Part title="Parameters" value={params}>
          <Fields value={params} run={run} name="params" none="It takes no parameters." />
        </Part>
        <Part title="Result" value={isOver ? result : undefined}>
          {isOver ? <ValueView value={result} run={run} name="result" /> : <None>There is no result yet.</None>}
        </Part>
        {place.at === null && detail.files.length ? (
          <Part title="Files">
            <ul className="flex flex-col gap-1">
              {detail.files.map((file) => (
                <li key={file.path} className="break-all">
                  <code>{file.path}</code>{" "}
                  <span className="text-meta text-text-2">
                    of {plainName(file.node)}
                    {file.complete ? "" : ", not complete"}
                  </span>
                </li>
              ))}
            </ul>
          </Part>
        ) : null}
      </div>
    </Panel>
  );
}

const label = (each: NodeAttempt, all: readonly NodeAttempt[]): string =>
  `Attempt ${each.attempt}${new Set(all.map(({ branch }) => branch)).size > 1 ? `, branch ${each.branch}` : ""}`;

function NodeValues({ node, attempts }: { node: string; attempts: NodeAttempt[] }) {
  const { run, place, go } = useRun();
  const asked = attempts.findLast((each) => each.attempt === place.attempt);
  const [picked, setPicked] = useState<NodeAttempt["first"] | null>(null);
  const shown = attempts.find((each) => each.first === picked) ?? asked ?? attempts.at(-1);
  const at = shown ? attempts.indexOf(shown) : -1;
  const [other, setOther] = useState<number | null>(null);
  const before = attempts[other ?? -1];
  const [isDiff, setDiff] = useState(false);
  if (!shown) return null;
  const against = before && before !== shown ? before : (attempts[at - 1] ?? attempts[at + 1]);
  return (
    <Panel
      title={<span className="break-all">{plainName(node)}</span>}
      note={
        <>
          {shown.started ? <Moment time={shown.started} precise /> : "not started"}
          {shown.started && shown.ended ? `, ${duration(shown.ended - shown.started)}` : ""}
          {shown.adopted ? `, the result of event ${shown.adopted} was used again` : ""}
          {shown.by ? `, its result was given by ${shown.by}` : ""}
        </>
      }
      end={
        attempts.length > 1 && against ? (
          <Segments
            label="Show"
            value={isDiff ? "diff" : "values"}
            onChange={(value) => setDiff(value === "diff")}
            choices={[
              { value: "values", text: "Values" },
              { value: "diff", text: "What differs" },
            ]}
          />
        ) : null
      }
    >
      {attempts.length > 1 ? (
        <div className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-2">
          <AttemptSelect
            name="Attempt"
            attempts={attempts}
            chosen={at}
            choose={(index) => {
              setPicked(attempts[index]?.first ?? null);
              go({ attempt: attempts[index]?.attempt ?? null }, { replace: true });
            }}
          />
          {isDiff && against ? (
            <>
              <GitCompare size={16} aria-hidden className="text-text-2" />
              <AttemptSelect
                name="Compared with"
                attempts={attempts}
                chosen={attempts.indexOf(against)}
                choose={setOther}
              />
            </>
          ) : null}
        </div>
      ) : null}
      <div className="flex flex-col gap-4 px-4 py-3">
        {isDiff && against ? (
          <Differences old={against} now={shown} all={attempts} />
        ) : (
          <>
            <Part title="Inputs" value={shown.inputs}>
              <Fields value={shown.inputs} run={run} name={`${node}.inputs`} none="It takes no inputs." />
            </Part>
            {shown.feedback === undefined ? null : (
              <Part title="Feedback" value={shown.feedback}>
                <ValueView value={shown.feedback} run={run} name={`${node}.feedback`} />
              </Part>
            )}
            {shown.checkpoint === undefined ? null : (
              <Part title="Checkpoint" value={shown.checkpoint}>
                <ValueView value={shown.checkpoint} run={run} name={`${node}.checkpoint`} />
              </Part>
            )}
            <Part title="Output" value={shown.output}>
              {shown.error ? (
                <p className="break-words text-fail">{messageOf(shown.error) || shown.error.kind}</p>
              ) : shown.output === undefined ? (
                <None>There is no output yet.</None>
              ) : (
                <ValueView value={shown.output} run={run} name={`${node}.output`} />
              )}
            </Part>
          </>
        )}
      </div>
    </Panel>
  );
}

function AttemptSelect({
  name,
  attempts,
  chosen,
  choose,
}: {
  name: string;
  attempts: NodeAttempt[];
  chosen: number;
  choose: (index: number) => void;
}) {
  return (
    <select
      aria-label={name}
      className={`${INPUT} w-auto!`}
      value={chosen}
      onChange={(event) => choose(Number(event.target.value))}
    >
      {attempts.map((each, index) => (
        <option key={each.first} value={index}>
          {label(each, attempts)}
          {each.error ? ", failed" : ""}
        </option>
      ))}
    </select>
  );
}

function Part({ title, value, children }: { title: string; value?: unknown; children: ReactNode }) {
  return (
    <section className="min-w-0">
      <h3 className="mb-1.5 flex items-baseline gap-2 font-semibold">
        {title} {value === undefined ? null : <TypeNote value={value} />}
      </h3>
      {children}
    </section>
  );
}

const None = ({ children }: { children: ReactNode }) => <p className="text-text-2">{children}</p>;

/** The arguments of a call, one by one with their types. */
function Fields({ value, run, name, none }: { value: unknown; run: string; name: string; none: string }) {
  const isPlain = typeof value === "object" && value !== null && !Array.isArray(value) && !("$" in value);
  if (!isPlain)
    return value === null || value === undefined ? (
      <None>{none}</None>
    ) : (
      <ValueView value={value} run={run} name={name} />
    );
  const fields = Object.entries(value);
  if (!fields.length) return <None>{none}</None>;
  return (
    <dl className="grid grid-cols-[minmax(80px,auto)_minmax(0,1fr)] gap-x-4 gap-y-2 max-md:grid-cols-1">
      {fields.map(([field, each]) => (
        <div key={field} className="contents">
          <dt className="min-w-0 break-all">
            <code>{field}</code>
            <br />
            <TypeNote value={each} />
          </dt>
          <dd className="min-w-0">
            <ValueView value={each} run={run} name={`${name}.${field}`} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

const parts = (each: NodeAttempt) => ({
  inputs: each.inputs,
  feedback: each.feedback,
  output: each.output,
  error: each.error ? messageOf(each.error) || each.error.kind : undefined,
});

function Differences({ old, now, all }: { old: NodeAttempt; now: NodeAttempt; all: NodeAttempt[] }) {
  const found = useMemo(
    () => differences(parts(old), parts(now)).filter((each) => each.old !== undefined || each.new !== undefined),
    [old, now],
  );
  if (!found.length) return <EmptyState icon={Braces} title="Nothing differs." />;
  return (
    <table className="w-full table-fixed text-code">
      <thead className="max-md:hidden">
        <tr className="text-left text-text-2">
          <th scope="col" className="w-1/5 py-1 pr-3 font-medium">
            Part
          </th>
          <th scope="col" className="py-1 pr-3 font-medium">
            {label(old, all)}
          </th>
          <th scope="col" className="py-1 font-medium">
            {label(now, all)}
          </th>
        </tr>
      </thead>
      <tbody>
        {found.map((each) => (
          <tr key={each.path} className="border-t border-line align-top max-md:flex max-md:flex-col max-md:py-2">
            <td className="py-1.5 pr-3 font-mono break-all text-text-2">{each.path}</td>
            <td className="py-1.5 pr-3">
              <Side value={each.old} isNew={false} />
            </td>
            <td className="py-1.5">
              <Side value={each.new} isNew />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Side({ value, isNew }: { value: unknown; isNew: boolean }) {
  if (value === undefined) return <span className="text-text-3">not there</span>;
  return (
    <code className={`rounded-control px-1.5 py-0.5 break-words ${isNew ? "bg-undo-tint" : "bg-sunken"}`}>
      {oneLine(value, 2000).text}
    </code>
  );
}
