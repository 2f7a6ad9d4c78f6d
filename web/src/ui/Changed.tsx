import { type ReactNode, useRef } from "react";

/** What it shows fades in from a tint when `value` has changed; not when it appears first. */
export function Changed({ value, children }: { value: string; children: ReactNode }) {
  const shown = useRef({ value, times: 0 });
  if (shown.current.value !== value) shown.current = { value, times: shown.current.times + 1 };
  const { times } = shown.current;
  return (
    <span key={times} className={times ? "animate-changed rounded-control" : undefined}>
      {children}
    </span>
  );
}
