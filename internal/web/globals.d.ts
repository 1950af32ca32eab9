// The part of htmx 2 that the scripts of the console and the portal use.
declare const htmx: {
  ajax(verb: string, path: string, context: Element | string | { target?: Element | string; source?: Element | string;
    swap?: string; values?: Record<string, string> }): Promise<void>;
  find(selector: string): Element | null;
  process(element: Element): void;
  trigger(element: Element | string, event: string, detail?: unknown): void;
};
