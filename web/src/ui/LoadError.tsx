import { WifiOff } from "lucide-react";
import { useEffect, useState } from "react";
import { Problem } from "@/api/client";
import { Button } from "./Button";
import { EmptyState } from "./EmptyState";

const WAITS_S = [4, 8, 15, 30];

/**
 * Something could not be loaded: what, why, and when it is tried again. A refusal that trying does not change is not tried
 * again.
 */
export function LoadError({ what, error, retry }: { what: string; error: unknown; retry: () => void }) {
  const [attempt, setAttempt] = useState(0);
  const wait = WAITS_S[Math.min(attempt, WAITS_S.length - 1)] ?? 30;
  const [left, setLeft] = useState(wait);
  const isFinal = error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429;
  useEffect(() => {
    if (isFinal) return;
    if (left > 0) {
      const timer = setTimeout(() => setLeft(left - 1), 1000);
      return () => clearTimeout(timer);
    }
    setAttempt((count) => count + 1);
    setLeft(WAITS_S[Math.min(attempt + 1, WAITS_S.length - 1)] ?? 30);
    retry();
  }, [isFinal, left, attempt, retry]);
  const detail = error instanceof Problem ? error.detail : String(error);
  const remedy = error instanceof Problem ? error.remedy : "";
  return (
    <div role="alert">
      <EmptyState
        icon={WifiOff}
        title={`${what} could not be loaded.`}
        action={<Button onClick={retry}>Try now</Button>}
      >
        {detail.replace(/[^.!?]$/, "$&.")} {isFinal ? remedy : `Trying again in ${left} s.`}
      </EmptyState>
    </div>
  );
}
