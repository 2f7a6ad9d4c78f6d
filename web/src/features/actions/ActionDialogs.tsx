import { Suspense } from "react";
import type { View } from "@/api/client";
import { lazyPart } from "@/api/parts";
import { type Asked, useActions } from "./store";

export type Detail = View<"RunDetailView">;

/** What every dialog gets: the run, what was asked, and how to close. */
export interface DialogProps<Kind extends Asked["kind"] = Asked["kind"]> {
  detail: Detail;
  asked: Extract<Asked, { kind: Kind }>;
  close: () => void;
}

const PlainDialogs = lazyPart(() => import("./PlainDialogs"));
const JumpDialog = lazyPart(() => import("./JumpDialog"));

/** The dialog of the action that was asked for on this run, if any. */
export function ActionDialogs({ detail }: { detail: Detail }) {
  const { asked, close } = useActions();
  if (asked?.run !== detail.run) return null;
  const isJump = asked.kind === "jump" || asked.kind === "retry" || asked.kind === "result";
  const Part = isJump ? JumpDialog : PlainDialogs;
  return (
    <Suspense fallback={null}>
      <Part key={JSON.stringify(asked)} detail={detail} asked={asked as never} close={close} />
    </Suspense>
  );
}
