import { useMemo } from "react";
import { duration } from "@/model/durations";
import { type Span, type SpanKind, totals } from "@/model/timeline";
import { SPANS } from "./looks";

const MOST = 400;

/** What the run did over its true time, nothing collapsed, with the sum of each. */
export function Strip({ spans }: { spans: readonly Span[] }) {
  const sums = useMemo(() => totals(spans), [spans]);
  const from = spans[0]?.from ?? 0;
  const all = (spans.at(-1)?.to ?? 0) - from;
  if (all <= 0) return null;
  const shown = spans.length > MOST ? coarse(spans, all / MOST) : spans;
  return (
    <section aria-label="What the run did" className="mb-4 rounded-panel border border-line bg-surface px-4 py-3">
      <div className="flex h-4 overflow-hidden rounded-control" aria-hidden>
        {shown.map((span) => (
          <span
            key={span.from}
            title={`${words(span.kind, span.who)}: ${duration(span.to - span.from)}`}
            className={`h-full min-w-px ${SPANS[span.kind].bar}`}
            style={{ width: `${((span.to - span.from) / all) * 100}%` }}
          />
        ))}
      </div>
      <dl className="mt-2 flex flex-wrap gap-x-5 gap-y-1 text-meta">
        {sums.map(({ kind, who, ms }) => (
          <div key={`${kind} ${who}`} className="flex items-center gap-1.5">
            <dt className="flex items-center gap-1.5 text-text-2">
              <span aria-hidden className={`size-3 rounded-[2px] ${SPANS[kind].bar}`} />
              {words(kind, who)}
            </dt>
            <dd className="font-semibold">{duration(ms)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

const words = (kind: SpanKind, who: string): string =>
  kind === "person" && who ? `Waiting for ${who}` : SPANS[kind].text;

/** Spans that are too short to be seen are joined with the ones before. */
function coarse(spans: readonly Span[], least: number): Span[] {
  const found: Span[] = [];
  for (const span of spans) {
    const last = found.at(-1);
    if (last && (span.to - span.from < least || last.kind === span.kind)) last.to = span.to;
    else found.push({ ...span });
  }
  return found;
}
