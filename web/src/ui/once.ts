import { useCallback, useEffect, useRef, useState } from "react";

/**
 * An action that is carried out once at a time: a second press before the first has ended does nothing. Returns the action
 * and whether it is under way.
 */
export function useOnce<A extends unknown[]>(act: (...given: A) => Promise<unknown>): [(...given: A) => void, boolean] {
  const [isBusy, setBusy] = useState(false);
  const isUnderWay = useRef(false);
  const isHere = useRef(true);
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    isHere.current = true;
    return () => {
      isHere.current = false;
    };
  }, []);
  const once = useCallback((...given: A) => {
    if (isUnderWay.current) return;
    isUnderWay.current = true;
    setBusy(true);
    void latest.current(...given).finally(() => {
      isUnderWay.current = false;
      if (isHere.current) setBusy(false);
    });
  }, []);
  return [once, isBusy];
}
