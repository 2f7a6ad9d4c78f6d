import { Field, INPUT } from "./Field";

/** What a person says with a decision. */
export function Comment({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return (
    <Field
      label={
        <>
          Comment <span className="text-text-2">optional</span>
        </>
      }
      help="Kept in the history of decisions, for people. The workflow does not get it."
    >
      {(attributes) => (
        <textarea
          {...attributes}
          rows={2}
          maxLength={500}
          value={value}
          onChange={(event) => onChange(event.target.value)}
          className={`${INPUT} h-auto py-1.5`}
        />
      )}
    </Field>
  );
}
