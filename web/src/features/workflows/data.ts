import { useQuery } from "@tanstack/react-query";
import { answer, api } from "@/api/client";
import { keys, useWorkers } from "@/api/queries";

export function useWorkflows() {
  return useQuery({
    queryKey: keys.workflows,
    queryFn: ({ signal }) => answer(api.GET("/api/v1/workflows", { signal })),
  });
}

/** How many live workers know a workflow; undefined until it is known. */
export function useKnowing(workflow: string): number | undefined {
  return useWorkers().data?.workers.filter((worker) => worker.live && worker.workflows.includes(workflow)).length;
}

export const SPANS = [
  { value: "1", text: "24 hours" },
  { value: "7", text: "7 days" },
  { value: "30", text: "30 days" },
] as const;
export const DAY_US = 86_400_000_000;

/** How the runs of a workflow went in the last days. */
export function useStatistics(workflow: string, days: number, buckets = 28) {
  return useQuery({
    queryKey: [...keys.workflows, workflow, "statistics", days, buckets],
    queryFn: ({ signal }) =>
      answer(
        api.GET("/api/v1/workflows/{workflow}/statistics", {
          params: { path: { workflow }, query: { since: Date.now() * 1000 - days * DAY_US, buckets } },
          signal,
        }),
      ),
  });
}
