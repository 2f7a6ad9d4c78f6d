/** Actions on runs: each acts once however often it is pressed, and says what came of it. */

import { create } from "zustand";
import { answer, api, type View } from "@/api/client";
import { keys, queries } from "@/api/queries";
import { attemptsIn, ordinal } from "@/model/actions";
import { counted } from "@/model/durations";
import { plainName, shortId } from "@/model/names";
import { toast, toastProblem } from "@/ui/Toast";

/** A body of which what is left out has its default. */
export type Body<Name extends "JumpBody" | "RetryBody" | "ActivateBody" | "ForkBody" | "PlanBody"> = Partial<
  View<Name>
>;
export type PlanBody = Body<"PlanBody"> & Pick<View<"PlanBody">, "action">;

/** A dialog that an action needs. */
export type Asked =
  | { kind: "decide" | "command" | "reject" | "pause" | "cancel" | "resume" | "delete"; run: string }
  | { kind: "jump" | "retry"; run: string; to?: string | number }
  | { kind: "result"; run: string; node: string }
  | { kind: "fork"; run: string; at?: string | number }
  | { kind: "activate"; run: string; branch?: number }
  | { kind: "migrate"; run: string }
  | { kind: "repair"; run: string };

interface Actions {
  /** The dialog that is open. */
  asked: Asked | null;
  /** What is under way: `resume invoice-7`. */
  busy: ReadonlySet<string>;
  ask: (asked: Asked) => void;
  close: () => void;
  /** Each is true if the server did it. */
  startWorkflow: (run: string) => Promise<boolean>;
  resumeWorkflow: (run: string, options?: { force?: boolean; events?: View<"PlannedEventView">[] }) => Promise<boolean>;
  cancelWorkflow: (run: string, options?: { reason?: string; force?: boolean }) => Promise<boolean>;
  pauseWorkflow: (run: string, reason?: string) => Promise<boolean>;
  decideWorkflow: (run: string, yes: boolean, interaction: string, comment?: string) => Promise<boolean>;
  retryWorkflow: (run: string, body: Body<"RetryBody">) => Promise<boolean>;
  jumpWorkflow: (run: string, body: Body<"JumpBody">) => Promise<boolean>;
  activateBranch: (run: string, body: Body<"ActivateBody">) => Promise<boolean>;
  migrateWorkflow: (run: string, body: { reason: string; children: "cancel" | "keep" }) => Promise<boolean>;
  forkWorkflow: (run: string, body: Body<"ForkBody">) => Promise<string | null>;
  repairWorkflow: (run: string) => Promise<boolean>;
  deleteWorkflow: (run: string, options: { reason: string; force: boolean }) => Promise<boolean>;
}

const at = (run: string) => ({ params: { path: { run } } });

export const useActions = create<Actions>((set, get) => {
  /** Do it once at a time; say what came of it. `refused` is the title if the server refuses. */
  async function once<T>(
    name: string,
    run: string,
    refused: string,
    request: () => Promise<{ data?: T }>,
    said: (done: T) => { title: string; text?: string },
  ): Promise<T | null> {
    const key = `${name} ${run}`;
    if (get().busy.has(key)) return null;
    set(({ busy }) => ({ busy: new Set([...busy, key]) }));
    try {
      const done = await answer(request());
      toast({ tone: "done", ...said(done) });
      return done;
    } catch (error) {
      toastProblem(refused, error);
      return null;
    } finally {
      set(({ busy }) => ({ busy: new Set([...busy].filter((each) => each !== key)) }));
      void queries.invalidateQueries({ queryKey: keys.run(run) });
      void queries.invalidateQueries({ queryKey: keys.doctor(run) });
      void queries.invalidateQueries({ queryKey: keys.runs });
      void queries.invalidateQueries({ queryKey: keys.inbox });
    }
  }

  return {
    asked: null,
    busy: new Set(),
    ask: (asked) => set({ asked }),
    close: () => set({ asked: null }),

    startWorkflow: async (run) => {
      const request = () => api.POST("/api/v1/runs/{run}/start", at(run));
      const said = () => ({ title: `${shortId(run)} started` });
      return (await once("start", run, "Not started", request, said)) !== null;
    },

    resumeWorkflow: async (run, { force = false, events = [] } = {}) => {
      const attempts = attemptsIn(events);
      const [first] = attempts;
      const text =
        attempts.length === 1 && first
          ? `${plainName(first.node)} has its ${ordinal(first.attempt)} attempt.`
          : attempts.length
            ? `${counted(attempts.length, "node")} have another attempt.`
            : "";
      const request = () => api.POST("/api/v1/runs/{run}/resume", { ...at(run), body: { force } });
      const done = await once("resume", run, "Not resumed", request, (view) => ({
        title: `${shortId(view.run)} resumed`,
        text: view.questions.length ? "It waits for an answer." : text,
      }));
      return done !== null;
    },

    cancelWorkflow: async (run, { reason = "", force = false } = {}) => {
      const request = () => api.POST("/api/v1/runs/{run}/cancel", { ...at(run), body: { reason, force } });
      const done = await once("cancel", run, "Not cancelled", request, (view) => ({
        title:
          view.status === "cancelled" ? `${shortId(view.run)} cancelled` : `${shortId(view.run)} is being cancelled`,
        text: view.status === "cancelled" ? "" : "Its code may clean up first.",
      }));
      return done !== null;
    },

    pauseWorkflow: async (run, reason = "") => {
      const request = () => api.POST("/api/v1/runs/{run}/pause", { ...at(run), body: { reason } });
      const done = await once("pause", run, "Not paused", request, (view) => ({
        title: view.status === "paused" ? `${shortId(view.run)} paused` : `${shortId(view.run)} is being paused`,
        text: view.status === "paused" ? "" : "Its nodes have 5 s to end or reach a checkpoint.",
      }));
      return done !== null;
    },

    decideWorkflow: async (run, yes, interaction, comment = "") => {
      const body = { interaction, comment };
      const request = () =>
        yes
          ? api.POST("/api/v1/runs/{run}/approve", { ...at(run), body })
          : api.POST("/api/v1/runs/{run}/reject", { ...at(run), body });
      const done = await once("answer", run, "Not answered", request, (view) => ({
        title: `${shortId(view.run)} ${yes ? "approved" : "rejected"}`,
        text: `The run continues with the answer ${yes ? "yes" : "no"}.`,
      }));
      return done !== null;
    },

    retryWorkflow: async (run, body) => {
      const request = () => api.POST("/api/v1/runs/{run}/retry", { ...at(run), body: body as View<"RetryBody"> });
      const said = (view: View<"ControlView">) => ({
        title: `${plainName(body.node || "The failed node")} is done again`,
        text: `${shortId(view.run)} is on branch ${view.branch}.`,
      });
      return (await once("retry", run, "Not retried", request, said)) !== null;
    },

    jumpWorkflow: async (run, body) => {
      const request = () => api.POST("/api/v1/runs/{run}/jump", { ...at(run), body: body as View<"JumpBody"> });
      const said = (view: View<"ControlView">) => ({
        title: `Branch ${view.branch} opened`,
        text: `${shortId(view.run)} continues on it.`,
      });
      return (await once("jump", run, "No branch was opened", request, said)) !== null;
    },

    activateBranch: async (run, body) => {
      const request = () => api.POST("/api/v1/runs/{run}/activate", { ...at(run), body: body as View<"ActivateBody"> });
      const said = (view: View<"ControlView">) => ({
        title: `Branch ${view.branch} opened`,
        text: `It continues from the end of branch ${body.branch}.`,
      });
      return (await once("activate", run, "No branch was opened", request, said)) !== null;
    },

    migrateWorkflow: async (run, body) => {
      const request = () => api.POST("/api/v1/runs/{run}/migrate", { ...at(run), body });
      const said = (view: View<"MigratedView">) => ({
        title: `${shortId(view.run)} continues with the current code`,
        text: view.replay.agrees ? "It stays on its branch." : `It is on branch ${view.branch}.`,
      });
      return (await once("migrate", run, "Not moved", request, said)) !== null;
    },

    forkWorkflow: async (run, body) => {
      const request = () => api.POST("/api/v1/runs/{run}/fork", { ...at(run), body: body as View<"ForkBody"> });
      const said = (view: View<"ControlView">) => ({
        title: `${shortId(view.run)} forked`,
        text: `${shortId(run)} is not changed.`,
      });
      return (await once("fork", run, "Not forked", request, said))?.run ?? null;
    },

    repairWorkflow: async (run) => {
      const request = () => api.POST("/api/v1/runs/{run}/doctor", { ...at(run), body: { fix: true, blobs: true } });
      const said = (view: View<"ExaminationView">) => {
        const done = view.repairs.filter((repair) => repair.done).map((repair) => repair.code);
        const error = view.repairs.find((repair) => repair.error)?.error;
        return { title: done.length ? `${done.join(", ")} repaired` : "Nothing was repaired", text: error ?? "" };
      };
      return (await once("repair", run, "Not repaired", request, said)) !== null;
    },

    deleteWorkflow: async (run, query) => {
      const request = () => api.DELETE("/api/v1/runs/{run}", { params: { path: { run }, query } });
      const said = () => ({ title: `${shortId(run)} deleted`, text: "Its id cannot be used again." });
      return (await once("delete", run, "Not deleted", request, said)) !== null;
    },
  };
});

/** Whether an action on the run is under way. */
export const useBusy = (name: string, run: string): boolean => useActions(({ busy }) => busy.has(`${name} ${run}`));
