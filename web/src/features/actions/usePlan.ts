import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { answer, api, type View } from "@/api/client";
import { stringify } from "@/api/json";
import { keys } from "@/api/queries";
import type { PlanBody } from "./store";

/** What an action would do with what is in the form; null asks nothing. It is asked again when the form has rested. */
export function usePlan(run: string, body: PlanBody | null) {
  const text = body === null ? "" : stringify(body);
  const rested = useRested(text);
  const plan = useQuery({
    queryKey: [...keys.run(run), "plan", rested],
    queryFn: ({ signal }) =>
      answer(
        api.POST("/api/v1/runs/{run}/plan", { params: { path: { run } }, body: body as View<"PlanBody">, signal }),
      ),
    enabled: body !== null && rested === text,
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 0,
  });
  return { ...plan, isCurrent: rested === text && !plan.isPlaceholderData && !plan.isFetching };
}

/** The text, once it did not change for 300 ms; the first one at once. */
function useRested(text: string): string {
  const [rested, setRested] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), 300);
    return () => clearTimeout(timer);
  }, [text]);
  return rested;
}
