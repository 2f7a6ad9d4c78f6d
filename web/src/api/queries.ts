import { QueryClient, useQuery } from "@tanstack/react-query";
import { answer, api, Problem } from "./client";

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      gcTime: 60_000, // the detail of a run has all of its nodes
      retry: (count, error) => count < 2 && !(error instanceof Problem && error.status >= 400 && error.status < 500),
      refetchOnWindowFocus: false,
    },
  },
});

/** Keys of queries. The stream invalidates by their beginnings. */
export const keys = {
  session: ["session"] as const,
  runs: ["runs"] as const,
  counts: ["counts"] as const,
  run: (run: string) => ["run", run] as const,
  /** Not below the run: to examine a run reads all of its log. */
  doctor: (run: string) => ["doctor", run] as const,
  inbox: ["inbox"] as const,
  workers: ["workers"] as const,
  workflows: ["workflows"] as const,
};

/** Who looks at the page, and what they may do. */
export function useMe() {
  return useQuery({
    queryKey: keys.session,
    queryFn: ({ signal }) => answer(api.GET("/api/v1/session", { signal })),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** Whether the person may do this; false until it is known. */
export function useMay(permission: string): boolean {
  return useMe().data?.permissions.includes(permission) ?? false;
}

/** The open questions of all runs, up to 200. */
export function useInbox() {
  return useQuery({
    queryKey: keys.inbox,
    queryFn: ({ signal }) => answer(api.GET("/api/v1/inbox", { params: { query: { limit: 200 } }, signal })),
  });
}

/** The runs that are held until a person decides, up to 200. */
export function useHeldRuns() {
  return useQuery({
    queryKey: [...keys.inbox, "held"],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/runs", { params: { query: { status: ["failed"], held: true, limit: 200 } }, signal })),
  });
}

export function useWorkers() {
  return useQuery({
    queryKey: keys.workers,
    queryFn: ({ signal }) => answer(api.GET("/api/v1/workers", { signal })),
  });
}
