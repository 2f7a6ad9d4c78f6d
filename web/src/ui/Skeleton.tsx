import { useLate } from "./Button";

/** Nothing for 400 ms, then grey lines in the shape of what comes; after 5 s it says so. */
export function Skeleton({ lines = 6, label = "Loading" }: { lines?: number; label?: string }) {
  const isLate = useLate(true);
  const isVeryLate = useLate(true, 5000);
  const widths = ["w-3/4", "w-11/12", "w-5/6", "w-2/3"];
  return (
    <div role="status" aria-label={label} className="min-h-24 px-4 py-4">
      {isLate ? (
        <div aria-hidden className="flex flex-col gap-3">
          {Array.from({ length: lines }, (_, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the lines are alike
            <div key={i} className={`h-2.5 rounded-control bg-sunken ${widths[i % widths.length]}`} />
          ))}
        </div>
      ) : null}
      {isVeryLate ? <p className="mt-3 text-text-2">Still loading.</p> : null}
    </div>
  );
}
