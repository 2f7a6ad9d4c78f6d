import {
  ArrowLeft,
  ChevronRight,
  Hand,
  Inbox,
  Info,
  List,
  type LucideIcon,
  MessageCircleQuestionMark,
} from "lucide-react";
import { useState } from "react";
import { Link, useNavigate, useSearchParams } from "react-router";
import { useMay } from "@/api/queries";
import { shortId } from "@/model/names";
import { Since } from "@/ui/Duration";
import { EmptyState } from "@/ui/EmptyState";
import { TickBox } from "@/ui/Field";
import { useKeys } from "@/ui/keys";
import { LoadError } from "@/ui/LoadError";
import { ZoneNote } from "@/ui/Moment";
import { PageHeading } from "@/ui/PageHeading";
import { Skeleton } from "@/ui/Skeleton";
import { Segments } from "@/ui/Tabs";
import { Decided } from "./Decided";
import { DecideTogether } from "./DecideTogether";
import { HeldRun } from "./HeldRun";
import { Question } from "./Question";
import { type Item, keyOf, useItems } from "./questions";

/** Everything that waits for a person: the list beside the question. */
export default function InboxPage() {
  const [params, setParams] = useSearchParams();
  const isDecided = params.get("show") === "decided";
  const found = useItems();
  const hasQuestion = params.has("run") && !isDecided;
  return (
    <>
      <div className={hasQuestion ? "max-md:hidden" : ""}>
        <PageHeading
          title="Inbox"
          beside={
            <Segments
              label="Which questions"
              value={isDecided ? "decided" : "open"}
              onChange={(value) => setParams(value === "decided" ? { show: "decided" } : {})}
              choices={[
                { value: "open", text: `Open ${found.items ? `${found.open}${found.hasMore ? "+" : ""}` : ""}`.trim() },
                { value: "decided", text: "Decided" },
              ]}
            />
          }
        />
      </div>
      {isDecided ? <Decided /> : <Open found={found} />}
      <p className="mt-3 text-meta text-text-3">
        <ZoneNote />
      </p>
    </>
  );
}

function Open({ found }: { found: ReturnType<typeof useItems> }) {
  const { items, drop } = found;
  const [params, setParams] = useSearchParams();
  const navigate = useNavigate();
  const mayAnswer = useMay("runs:answer");
  const mayTogether = useMay("runs:bulk") && mayAnswer;
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set());
  const at =
    items?.findIndex((item) => item.run === params.get("run") && item.id === (params.get("question") ?? "")) ?? -1;
  const isChosen = params.has("run");
  const show = (item: Item | undefined) =>
    setParams(item ? { run: item.run, ...(item.id ? { question: item.id } : {}) } : {}, {
      replace: isChosen && Boolean(item),
    });
  const step = (by: number) => items && show(items[Math.min(items.length - 1, Math.max(0, at + by))]);
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    Escape: () => setTicked(new Set()),
  });
  if (!items)
    return found.error ? <LoadError what="The inbox" error={found.error} retry={found.retry} /> : <Skeleton />;
  if (!items.length && !isChosen)
    return (
      <section className="mt-3 rounded-panel border border-line bg-surface">
        <EmptyState icon={Inbox} title="Nothing waits for a person.">
          Questions and held runs appear here.
        </EmptyState>
      </section>
    );
  const current = items[at] ?? (isChosen ? undefined : items[0]);
  const chosen = items.filter((item) => ticked.has(keyOf(item)) && !item.isGone);
  const tick = (item: Item, isOn: boolean) => {
    const changed = new Set(ticked);
    if (isOn) changed.add(keyOf(item));
    else changed.delete(keyOf(item));
    setTicked(changed);
  };
  const decided = (done: Item[]) => {
    const place = Math.max(0, current ? items.indexOf(current) : 0);
    const rest = items.filter((item) => !done.includes(item));
    const next = rest.slice(place).find((item) => !item.isGone) ?? rest.findLast((item) => !item.isGone);
    drop(done);
    if (!current || !done.includes(current)) return;
    if (next && isChosen) show(next);
    else navigate("/inbox", { replace: true });
  };
  return (
    <div className="mt-3 grid items-start gap-4 md:grid-cols-[minmax(0,420px)_minmax(0,1fr)]">
      <section
        aria-label="Questions"
        className={`overflow-hidden rounded-panel border border-line bg-surface ${isChosen ? "max-md:hidden" : ""}`}
      >
        <ul>
          {items.map((item) => (
            <Row
              key={keyOf(item)}
              item={item}
              isCurrent={item === current}
              isChosen={isChosen}
              tick={
                mayTogether && item.kind === "approval" && !item.isGone ? (
                  <TickBox
                    label={`Tick ${item.text}`}
                    checked={ticked.has(keyOf(item))}
                    onChange={(isOn) => tick(item, isOn)}
                  />
                ) : null
              }
            />
          ))}
        </ul>
        {mayTogether && items.some((item) => item.kind === "approval") ? (
          <p className="flex gap-2 border-t border-line px-4 py-2.5 text-meta text-text-2">
            <Info size={14} aria-hidden className="mt-px flex-none" />
            Approvals can be ticked and decided together. Each is reported as done or skipped.
          </p>
        ) : null}
      </section>
      <div className={`min-w-0 ${isChosen ? "" : "max-md:hidden"}`}>
        {current ? (
          <section
            aria-label="The question"
            key={keyOf(current)}
            className="min-w-0 rounded-panel border border-line bg-surface"
          >
            <BackBar items={items} at={items.indexOf(current)} onNext={() => step(1)} />
            {current.kind === "held" ? (
              <HeldRun item={current} />
            ) : (
              <Question item={current} mayAnswer={mayAnswer} onDecided={() => decided([current])} />
            )}
          </section>
        ) : (
          <section className="rounded-panel border border-line bg-surface">
            <EmptyState icon={Inbox} title={`${params.get("run")} does not ask this any more.`}>
              <Link to={`/runs/${params.get("run")}`} className="link">
                See what became of it
              </Link>
            </EmptyState>
          </section>
        )}
      </div>
      {chosen.length ? (
        <DecideTogether items={chosen} onDecided={decided} onClear={() => setTicked(new Set())} />
      ) : null}
    </div>
  );
}

const LOOKS: Record<Item["kind"], { icon: LucideIcon; hue: string; word: string }> = {
  approval: { icon: MessageCircleQuestionMark, hue: "text-wait", word: "Approval" },
  form: { icon: List, hue: "text-wait", word: "Form" },
  held: { icon: Hand, hue: "text-held", word: "Held" },
};

function Row({
  item,
  isCurrent,
  isChosen,
  tick,
}: {
  item: Item;
  isCurrent: boolean;
  isChosen: boolean;
  tick: React.ReactNode;
}) {
  const { icon: Icon, hue, word } = LOOKS[item.kind];
  const mark = isCurrent
    ? `${isChosen ? "bg-selected" : "md:bg-selected"} md:shadow-[inset_3px_0_0_var(--ink)]`
    : "hover:bg-hover";
  return (
    <li className={`flex border-b border-line last:border-0 ${mark}`}>
      <span className="w-8 flex-none py-2.5 pl-4">{tick}</span>
      <Link
        to={`?run=${encodeURIComponent(item.run)}${item.id ? `&question=${encodeURIComponent(item.id)}` : ""}`}
        aria-current={isCurrent || undefined}
        className={`flex min-w-0 flex-1 gap-2.5 py-2.5 pr-4 pl-2.5 ${item.isGone ? "text-text-3" : ""}`}
      >
        <Icon size={16} aria-hidden className={`mt-0.5 flex-none ${item.isGone ? "" : hue}`} />
        <span className="min-w-0 flex-1">
          <span className="line-clamp-3 font-medium break-words">{item.text}</span>
          <span className="block truncate text-meta text-text-2">
            <span className={item.kind === "held" ? "font-medium text-held" : "font-medium"}>
              {item.isGone ? "Not open any more" : word}
            </span>{" "}
            <code title={item.run}>{shortId(item.run)}</code>
          </span>
        </span>
        {item.since ? <Since from={item.since} className="flex-none text-meta text-text-2" /> : null}
      </Link>
    </li>
  );
}

/** On narrow screens the question is a page of its own. */
function BackBar({ items, at, onNext }: { items: Item[]; at: number; onNext: () => void }) {
  return (
    <div className="flex min-h-12 items-center gap-2 border-b border-line px-4 md:hidden">
      <h1 className="sr-only">Inbox</h1>
      <Link to="/inbox" className="flex items-center gap-2 py-2.5 font-medium">
        <ArrowLeft size={16} aria-hidden /> Inbox
      </Link>
      <span className="ml-auto text-meta text-text-2">
        {at + 1} of {items.length}
      </span>
      <button
        type="button"
        aria-label="Next question"
        disabled={at + 1 >= items.length}
        onClick={onNext}
        className="p-2.5 disabled:text-text-3"
      >
        <ChevronRight size={16} aria-hidden />
      </button>
    </div>
  );
}
