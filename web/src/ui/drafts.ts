import { type Dispatch, type SetStateAction, useEffect, useState } from "react";
import { create } from "zustand";
import { parse, stringify } from "@/api/json";

/** How many forms are half filled: the page asks before it reloads. */
export const useDirty = create<{ forms: number }>(() => ({ forms: 0 }));

/** The form is half filled while `isDirty`: nothing reloads the page without asking. */
export function useDirtyForm(isDirty: boolean): void {
  useEffect(() => {
    if (!isDirty) return;
    useDirty.setState(({ forms }) => ({ forms: forms + 1 }));
    return () => useDirty.setState(({ forms }) => ({ forms: forms - 1 }));
  }, [isDirty]);
}

/**
 * The state of a form that survives a reload and a new sign-in, in this tab: `key` names the form, such as
 * `answer invoice-7 approve`. `undefined` is a form that nobody has touched. Setting `undefined` forgets the draft.
 */
export function useDraft<T>(key: string): [T | undefined, Dispatch<SetStateAction<T | undefined>>] {
  const name = `outlast.draft ${key}`;
  const [draft, setDraft] = useState<T | undefined>(() => {
    const kept = sessionStorage.getItem(name);
    return kept === null ? undefined : (parse(kept, true) as T);
  });
  useEffect(() => {
    if (draft === undefined) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, stringify(draft));
  }, [name, draft]);
  useDirtyForm(draft !== undefined);
  return [draft, setDraft];
}
