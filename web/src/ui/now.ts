import { useSyncExternalStore } from "react";
import { now } from "@/api/clock";

let at = now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    at = now();
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Now, by the server's clock, in milliseconds; renewed every second. All that use it change together. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => {
    if (!timer) at = now();
    return at;
  });
}
