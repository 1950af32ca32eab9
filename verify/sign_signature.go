package verify

import (
	"crypto"
	"encoding/json"
	"slices"
	"strings"
)

// sign adds the headers that the outline requires, the timestamp and the
// signature. A signature in the body is added to each item.
func (v *signatureVerifier) sign(_ Config, r *Request, key crypto.Signer) (err error) {
	for i := range v.require {
		r.Header.Set(v.require[i].name, v.require[i].value)
	}
	var stamp string
	if v.stamp != nil {
		if stamp, err = v.stamp.write(r); err != nil {
			return err
		}
	}
	var view object
	if v.needView {
		var bad *Error
		if view, bad = viewOf(r); bad != nil {
			return bad
		}
	}
	if v.path != nil {
		return v.signBody(r, view, key)
	}
	sum, err := v.signMessage(r, view, stamp, key)
	if err == nil {
		r.Header.Set(v.headers[0], v.headerValue(sum, stamp))
	}
	return err
}

// signMessage returns the encoded signature of the request, or of an item of its
// body.
func (v *signatureVerifier) signMessage(r *Request, item object, stamp string, key crypto.Signer) (string, error) {
	w := workspacePool.Get().(*workspace) //nolint:forcetypeassert // the pool contains only workspaces
	defer w.release()
	w.reset(v.checker.sizes())
	if v.fields != nil {
		w.found = v.fields.scan(w.found, item.json.Raw)
	}
	if err := v.message.compose(w, r, stamp); err != nil {
		return "", err
	}
	raw, err := v.checker.signature(w, r, key)
	return v.encoding.encode(raw), err
}

// signBody signs the body, or each of its items.
func (v *signatureVerifier) signBody(r *Request, view object, key crypto.Signer) error {
	if v.items == nil {
		sum, err := v.signMessage(r, view, "", key)
		if err != nil {
			return err
		}
		return setFields(r, v.path[0], v.prefix+sum)
	}
	var sums []any
	var failed error
	_, bad := view.each(v.items[0], func(item object) *Error {
		sum, err := v.signMessage(r, item, "", key)
		sums = append(sums, v.prefix+sum)
		if err != nil {
			failed = err
		}
		return nil
	})
	switch {
	case bad != nil:
		return bad
	case failed != nil:
		return failed
	case len(sums) == 0:
		return v.noItem
	}
	return setFields(r, slices.Concat(v.items[0], v.path[0]), sums...)
}

// headerValue is the inverse of collect: it returns the header with one signature.
func (v *signatureVerifier) headerValue(sum, stamp string) string {
	switch {
	case v.inJSON != nil:
		var value any = sum
		for i := len(v.inJSON[0]) - 1; i >= 0; i-- {
			value = map[string]any{v.inJSON[0][i]: value}
		}
		raw, _ := json.Marshal(value) // strings and objects always marshal
		return strictBase64.EncodeToString(raw)
	case v.key != "":
		return strings.Join([]string{v.stamp.key + "=" + stamp, v.key + "=" + sum}, v.separator)
	}
	return v.prefix + sum
}
