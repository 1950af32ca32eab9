package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Eval returns the JSON value of a JavaScript expression in the page. It awaits a promise.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	return run(p, "evaluate "+expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Click clicks the first element of a CSS selector when it is visible.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.WaitVisible(selector)
	p.Do("click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// Fill replaces the text of an input or a text area, as a person who types does.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	p.WaitVisible(selector)
	p.focus(selector)
	if text == "" {
		p.Press("Backspace")
		return
	}
	p.Do("fill "+selector, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
		return err
	}))
}

// focus focuses an element and selects its text.
func (p *Page) focus(selector string) {
	p.t.Helper()
	Eval[bool](p, fmt.Sprintf(`(e => { e.focus(); e.select?.(); return true })(document.querySelector(%s))`,
		quote(selector)))
}

// Choose selects the option of a select element by its value, and dispatches input and change.
func (p *Page) Choose(selector, value string) {
	p.t.Helper()
	p.WaitVisible(selector)
	p.focus(selector)
	chosen := Eval[string](p, fmt.Sprintf(`(e => { e.value = %s;
		for (const type of ["input", "change"]) e.dispatchEvent(new Event(type, {bubbles: true}));
		return e.value })(document.querySelector(%s))`, quote(value), quote(selector)))
	if chosen != value {
		p.t.Fatalf("%s has no option %q", selector, value)
	}
}

// keys are the names of keys without a character.
var keys = map[string]string{
	"Enter": kb.Enter, "Escape": kb.Escape, "Tab": kb.Tab, "Space": " ",
	"Backspace": kb.Backspace, "Delete": kb.Delete,
	"ArrowDown": kb.ArrowDown, "ArrowUp": kb.ArrowUp, "ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight,
	"Home": kb.Home, "End": kb.End, "PageDown": kb.PageDown, "PageUp": kb.PageUp,
}

// modifiers are the prefixes of a chord such as Control+k.
var modifiers = map[string]chromedp.Modifier{
	"Control": chromedp.ModifierCtrl, "Shift": chromedp.ModifierShift,
	"Alt": chromedp.ModifierAlt, "Meta": chromedp.ModifierMeta,
}

// Press presses keys one after the other: a character such as "j", a name such as "Enter", or a
// chord such as "Control+k". The focused element receives them.
func (p *Page) Press(chords ...string) {
	p.t.Helper()
	for _, chord := range chords {
		key, held := parseChord(chord)
		if key == "" {
			p.t.Fatalf("press %q: the key is unknown", chord)
		}
		p.Do("press "+chord, pressKey([]rune(key)[0], held))
	}
}

// pressKey presses and releases a key. Unlike chromedp.KeyEvent it sends no event for the character: the
// browser types the character unless the page prevents that.
func pressKey(key rune, held []chromedp.Modifier) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		events := kb.Encode(key)
		for _, e := range events {
			for _, m := range held {
				e.Modifiers |= int64(m)
			}
		}
		down, up := events[0], events[len(events)-1]
		if len(events) > 2 && down.Modifiers&^int64(chromedp.ModifierShift) == 0 { //nolint:mnd // down, character, up
			down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
		}
		for _, e := range []*input.DispatchKeyEventParams{down, up} {
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, *e); err != nil {
				return err
			}
		}
		return nil
	})
}

// parseChord returns the code of the key, "" if it is unknown, and the modifiers.
func parseChord(chord string) (key string, held []chromedp.Modifier) {
	key = chord
	for {
		prefix, rest, _ := strings.Cut(key, "+")
		modifier, known := modifiers[prefix]
		if !known || rest == "" {
			break
		}
		key, held = rest, append(held, modifier)
	}
	if code, named := keys[key]; named {
		return code, held
	}
	if utf8.RuneCountInString(key) != 1 {
		return "", nil
	}
	return key, held
}

// Text returns the visible text of the first element of a CSS selector. It waits until the element exists.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf(`document.querySelector(%s)`, quote(selector)))
	return Eval[string](p, fmt.Sprintf(`document.querySelector(%s).innerText`, quote(selector)))
}

// Count returns the number of elements of a CSS selector.
func (p *Page) Count(selector string) int {
	p.t.Helper()
	return Eval[int](p, fmt.Sprintf(`document.querySelectorAll(%s).length`, quote(selector)))
}

// URL returns the address of the page.
func (p *Page) URL() string {
	p.t.Helper()
	return Eval[string](p, `location.href`)
}

// Focused returns the id of the focused element, or its tag in lower case if it has none.
func (p *Page) Focused() string {
	p.t.Helper()
	return Eval[string](p, `(e => e.id || e.tagName.toLowerCase())(document.activeElement)`)
}

// quote returns a string as a JavaScript literal.
func quote(text string) string {
	raw, _ := json.Marshal(text) // a string always has a JSON form
	return string(raw)
}
