import { Check, ChevronRight, Copy, Play, SquareTerminal } from "lucide-react";
import { useMemo, useRef, useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import { answer, api, Problem, type View } from "@/api/client";
import type { Json } from "@/api/json";
import { useMay, useMe } from "@/api/queries";
import { parseAttributes } from "@/model/attributes";
import { startCommand } from "@/model/command";
import { counted } from "@/model/durations";
import { shortId } from "@/model/names";
import { type Entry, formOf, formOfParameters, itemsOf } from "@/model/schema-form";
import { Button } from "@/ui/Button";
import { copy } from "@/ui/CopyId";
import { useDraft } from "@/ui/drafts";
import { EmptyState } from "@/ui/EmptyState";
import { Field, INPUT } from "@/ui/Field";
import { FormArea, FormSwitch, onSendKey, useForm } from "@/ui/FormArea";
import { LoadError } from "@/ui/LoadError";
import { useOnce } from "@/ui/once";
import { PageHeading } from "@/ui/PageHeading";
import { Panel } from "@/ui/Panel";
import { SchemaForm } from "@/ui/SchemaForm";
import { Skeleton } from "@/ui/Skeleton";
import { Segments } from "@/ui/Tabs";
import { toast } from "@/ui/Toast";
import { useKnowing, useStatistics, useWorkflows } from "./data";
import { Earlier } from "./Earlier";
import { Knowing } from "./Knowing";
import { Crumb } from "./WorkflowPage";
import { Went } from "./WorkflowsPage";

/** Start a run of a workflow, or choose one. */
export default function StartPage() {
  const { workflow: name } = useParams();
  const found = useWorkflows();
  const may = useMay("runs:start");
  const role = useMe().data?.role;
  const workflow = found.data?.workflows.find((each) => each.workflow === name);
  if (role && !may)
    return (
      <>
        <PageHeading title="Start a run" />
        <p className="mt-3">Your role, {role}, cannot do this. Ask an operator.</p>
      </>
    );
  if (!found.data)
    return (
      <>
        <PageHeading title={name ? `Start ${name}` : "Start a run"} />
        {found.error ? (
          <LoadError what="The workflows" error={found.error} retry={() => void found.refetch()} />
        ) : (
          <Skeleton />
        )}
      </>
    );
  if (!workflow) return <Choose name={name} workflows={found.data.workflows} />;
  return <Start key={workflow.workflow} workflow={workflow} />;
}

function Choose({ name, workflows }: { name: string | undefined; workflows: View<"WorkflowView">[] }) {
  return (
    <>
      <PageHeading title="Start a run" />
      <section className="mt-3 rounded-panel border border-line bg-surface">
        {name ? (
          <p className="border-b border-line px-4 py-3">
            This server does not know a workflow {name}. Start it with the module that defines it.
          </p>
        ) : null}
        {workflows.length ? (
          <ul>
            {workflows.map((workflow) => (
              <li key={workflow.workflow} className="border-b border-line last:border-0">
                <Link
                  to={`/start/${encodeURIComponent(workflow.workflow)}`}
                  className="flex items-center gap-3 px-4 py-2.5 hover:bg-hover"
                >
                  <span className="font-medium">{workflow.workflow}</span>
                  <span className="min-w-0 flex-1 truncate text-text-2">{workflow.doc.split("\n")[0]}</span>
                  <ChevronRight size={16} aria-hidden />
                </Link>
              </li>
            ))}
          </ul>
        ) : (
          <EmptyState icon={Play} title="This server knows no workflow.">
            Start it with the modules that define them: <code>outlast serve MODULE</code>.
          </EmptyState>
        )}
      </section>
    </>
  );
}

interface RunOptions {
  id: string;
  title: string;
  tags: Entry;
  attributes: Entry;
  queue: string;
  priority: string;
  fairnessKey: string;
  isLater: boolean;
}

const TAGS = { ...formOf({ type: "array", items: { type: "string" } }, "Tags"), path: "tags", isRequired: false };
const ATTRIBUTES = {
  ...formOf({ type: "array", items: { type: "string" } }, "Attributes, name=value"),
  path: "attributes",
  isRequired: false,
};
const NO_ITEMS: Entry = { empty: "absent", items: [], text: "" };
const NO_OPTIONS: RunOptions = {
  ...{ id: "", title: "", tags: NO_ITEMS, attributes: NO_ITEMS },
  ...{ queue: "", priority: "", fairnessKey: "", isLater: false },
};
const ID = /^([A-Za-z0-9][A-Za-z0-9._:@=+-]{0,199})?$/;
const QUEUE = /^([\p{L}_][\p{L}\p{N}_.-]{0,99})?$/u;
const MOST_PRIORITY = 100;
const NONE = new Map<string, string>();
const NOBODY = new Set<string>();

function Start({ workflow }: { workflow: View<"WorkflowView"> }) {
  const { workflow: name } = workflow;
  const navigate = useNavigate();
  const spec = useMemo(() => formOfParameters(workflow.parameters), [workflow.parameters]);
  const form = useForm(`start ${name}`, spec);
  const [kept, setOptions] = useDraft<RunOptions>(`start options ${name}`);
  const options = { ...NO_OPTIONS, ...kept };
  const [taken, setTaken] = useState<{ id: string; text: string } | null>(null);
  const [refusal, setRefusal] = useState("");
  const key = useRef(randomKey());
  const tags = itemsOf(options.tags);
  const texts = itemsOf(options.attributes);
  const { attributes, error: attributeError } = parseAttributes(texts);
  const idError = ID.test(options.id)
    ? undefined
    : "Use letters, digits and . _ : @ = + - beginning with a letter or digit.";

  const queueError = QUEUE.test(options.queue)
    ? undefined
    : "Use at most 100 letters, digits, _ . and -, beginning with a letter.";
  const priorityError = isPriority(options.priority) ? undefined : "This has to be a whole number from -100 to 100.";

  const [start, isBusy] = useOnce(async () => {
    if (!form.check() || form.value === undefined || idError || attributeError || queueError || priorityError) return;
    setRefusal("");
    setTaken(null);
    const body = {
      workflow: name,
      params: form.value as Record<string, never>,
      id: options.id,
      title: options.title,
      tags,
      attributes,
      ...(options.queue ? { queue: options.queue } : {}),
      ...(options.priority ? { priority: Number(options.priority) } : {}),
      ...(options.fairnessKey ? { fairness_key: options.fairnessKey } : {}),
      start: !options.isLater,
      wait: 0,
    };
    try {
      const header = options.id ? {} : { "Idempotency-Key": key.current };
      const made = await answer(api.POST("/api/v1/runs", { body, headers: header }));
      form.clear();
      setOptions(undefined);
      key.current = randomKey();
      toast({ title: `${shortId(made.run)} ${made.created ? "started" : "was started before"}` });
      navigate(`/runs/${made.run}`);
    } catch (error) {
      if (error instanceof Problem && error.code === "outlast.already_exists" && options.id)
        setTaken({ id: options.id, text: error.detail });
      else {
        setRefusal(error instanceof Problem ? `${error.detail} ${error.remedy}`.trim() : String(error));
        // Refused for good: what comes is another start. Without an answer, the same one is asked for again.
        if (error instanceof Problem && error.status >= 400 && error.status < 500) key.current = randomKey();
      }
    }
  });
  const wrong = [...form.errors.keys()].filter((path) => form.left.has(path));
  if (idError || (taken && taken.id === options.id)) wrong.push("Id");
  if (attributeError) wrong.push("Attributes");
  if (queueError) wrong.push("Queue");
  if (priorityError) wrong.push("Priority");
  const params = form.value as { [name: string]: Json } | undefined;
  return (
    <>
      <Crumb name={name} />
      <PageHeading title={`Start ${name}`} />
      <p className="flex flex-wrap gap-x-4 gap-y-1 text-meta text-text-2">
        <code>{workflow.entry}</code>
        <span>
          version <code>{workflow.version.slice(0, 8)}</code>, the newest
        </span>
        <Knowing workers={useKnowing(name)} />
      </p>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys of its fields are heard here */}
      <div
        className="mt-4 grid items-start gap-4 lg:grid-cols-[minmax(0,65fr)_minmax(0,35fr)]"
        onKeyDown={onSendKey(start)}
      >
        <section className="min-w-0 rounded-panel border border-line bg-surface">
          <header className="flex min-h-11 items-center justify-between gap-2 border-b border-line px-4 py-2">
            <h2 className="font-semibold">Parameters</h2>
            {spec.fields.length ? <FormSwitch form={form} /> : null}
          </header>
          <div className="px-4 py-3">
            {spec.fields.length ? <FormArea form={form} /> : <p className="text-text-2">It has no parameters.</p>}
          </div>
          <h2 className="border-y border-line px-4 py-2.5 font-semibold">The run</h2>
          <div className="grid grid-cols-2 gap-x-4 gap-y-3 px-4 py-3 max-md:grid-cols-1">
            <Field
              label={<span className="font-medium">Id {OPTIONAL}</span>}
              note={
                taken && taken.id === options.id ? (
                  <Link to={`/runs/${taken.id}`} className="link">
                    Show that run
                  </Link>
                ) : (
                  "text"
                )
              }
              error={taken && taken.id === options.id ? `${taken.text}.` : idError}
              help={options.id ? undefined : "Left empty: one is made."}
            >
              {(attributes) => (
                <input
                  {...attributes}
                  value={options.id}
                  spellCheck={false}
                  autoComplete="off"
                  onChange={(event) => setOptions({ ...options, id: event.target.value })}
                  className={INPUT}
                />
              )}
            </Field>
            <Field label={<span className="font-medium">Title {OPTIONAL}</span>} note="text">
              {(attributes) => (
                <input
                  {...attributes}
                  value={options.title}
                  maxLength={1000}
                  autoComplete="off"
                  onChange={(event) => setOptions({ ...options, title: event.target.value })}
                  className={INPUT}
                />
              )}
            </Field>
            <SchemaForm
              spec={TAGS}
              entry={options.tags}
              onChange={(changed) => setOptions({ ...options, tags: changed })}
              errors={NONE}
              left={NOBODY}
              onLeave={() => {}}
            />
            <SchemaForm
              spec={ATTRIBUTES}
              entry={options.attributes}
              onChange={(changed) => setOptions({ ...options, attributes: changed })}
              errors={new Map([[ATTRIBUTES.path, attributeError]])}
              left={attributeError ? new Set([ATTRIBUTES.path]) : NOBODY}
              onLeave={() => {}}
            />
            <Field
              label={<span className="font-medium">Queue {OPTIONAL}</span>}
              note="text"
              error={queueError}
              help="Left empty: the queue of the workflow."
            >
              {(attributes) => (
                <input
                  {...attributes}
                  value={options.queue}
                  spellCheck={false}
                  autoComplete="off"
                  onChange={(event) => setOptions({ ...options, queue: event.target.value.trim() })}
                  className={INPUT}
                />
              )}
            </Field>
            <Field
              label={<span className="font-medium">Priority {OPTIONAL}</span>}
              note="-100 to 100"
              error={priorityError}
              help="Of the runs that wait in a queue, the greatest begins first."
            >
              {(attributes) => (
                <input
                  {...attributes}
                  value={options.priority}
                  inputMode="numeric"
                  autoComplete="off"
                  onChange={(event) => setOptions({ ...options, priority: event.target.value.trim() })}
                  className={INPUT}
                />
              )}
            </Field>
            <Field
              label={<span className="font-medium">Fairness key {OPTIONAL}</span>}
              note="text"
              help="The runs of each key take turns, for example of each customer."
            >
              {(attributes) => (
                <input
                  {...attributes}
                  value={options.fairnessKey}
                  maxLength={200}
                  spellCheck={false}
                  autoComplete="off"
                  onChange={(event) => setOptions({ ...options, fairnessKey: event.target.value })}
                  className={INPUT}
                />
              )}
            </Field>
            <div className="flex flex-col items-start gap-1">
              <span className="font-medium">Begin</span>
              <Segments
                label="Begin"
                value={options.isLater ? "later" : "now"}
                onChange={(value) => setOptions({ ...options, isLater: value === "later" })}
                choices={[
                  { value: "now", text: "At once" },
                  { value: "later", text: "When I say so" },
                ]}
              />
            </div>
          </div>
          {refusal ? (
            <p role="alert" className="px-4 pb-3 break-words text-fail">
              {refusal}
            </p>
          ) : null}
          <footer className="flex flex-wrap items-center gap-2 rounded-b-panel border-t border-line bg-surface px-4 py-3 max-md:sticky max-md:bottom-14">
            <Button look="primary" busy={isBusy} busyText="Starting…" onClick={() => start()}>
              <Play size={16} aria-hidden /> {options.isLater ? "Create the run" : "Start the run"}
            </Button>
            {wrong.length ? (
              <span className="text-meta text-fail">
                {counted(wrong.length, "field")} {wrong.length === 1 ? "is" : "are"} not right yet: {wrong.join(", ")}
              </span>
            ) : null}
            {form.isTouched || kept ? (
              <Button
                look="flat"
                onClick={() => {
                  form.clear();
                  setOptions(undefined);
                }}
              >
                Clear
              </Button>
            ) : null}
            <span className="ml-auto flex gap-1 max-md:hidden" aria-hidden>
              <kbd className="rounded-control border border-line bg-canvas px-1.5">Ctrl</kbd>
              <kbd className="rounded-control border border-line bg-canvas px-1.5">Enter</kbd>
            </span>
          </footer>
        </section>
        <div className="flex min-w-0 flex-col gap-4">
          <Earlier workflow={name} onUse={form.fill} />
          <Command
            text={
              params
                ? startCommand({
                    entry: workflow.entry,
                    params,
                    id: options.id,
                    title: options.title,
                    tags,
                    attributes: texts,
                    queue: options.queue,
                    priority: options.priority,
                    fairnessKey: options.fairnessKey,
                    isLater: options.isLater,
                  })
                : null
            }
          />
          <SoFar name={name} />
        </div>
      </div>
    </>
  );
}

const OPTIONAL = <span className="font-normal text-text-2">optional</span>;

const isPriority = (text: string): boolean =>
  text === "" || (/^-?\d{1,3}$/.test(text) && Math.abs(Number(text)) <= MOST_PRIORITY);

/** A key for one start, so that a request that is sent twice starts one run. */
function randomKey(): string {
  return `page-${[...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function Command({ text }: { text: string | null }) {
  const [copied, setCopied] = useState("");
  const isCopied = text !== null && copied === text;
  return (
    <Panel
      title={
        <span className="flex items-center gap-2">
          <SquareTerminal size={16} aria-hidden /> The same on the command line
        </span>
      }
      end={
        <Button
          small
          look="flat"
          disabled={text === null}
          onClick={async () => text !== null && (await copy(text)) && setCopied(text)}
        >
          {isCopied ? <Check size={14} aria-hidden /> : <Copy size={14} aria-hidden />}
          {isCopied ? "Copied" : "Copy"}
        </Button>
      }
    >
      <div className="p-4">
        {text === null ? (
          <p className="text-text-2">It is shown when all fields are right.</p>
        ) : (
          <pre
            tabIndex={0}
            className="overflow-x-auto rounded-control bg-code px-3 py-2 break-words whitespace-pre-wrap"
          >
            {text}
          </pre>
        )}
      </div>
    </Panel>
  );
}

function SoFar({ name }: { name: string }) {
  const statistics = useStatistics(name, 30, 1).data;
  if (!statistics) return null;
  return (
    <Panel title="How it went so far" note="30 days">
      <p className="px-4 py-3">
        <Link to={`/workflows/${encodeURIComponent(name)}`} className="link">
          <Went statistics={statistics} />
        </Link>
      </p>
    </Panel>
  );
}
