package verify

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	neturl "net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Each fuzz test has a simple second implementation of its scheme, and compares the
// results. {sig} in a fuzzed text is replaced by the valid signature, which a fuzzer
// could not find.

func agree(t *testing.T, c Config, r *Request, want bool) {
	t.Helper()
	err := mustNew(t, c).Verify(t.Context(), r)
	if got := reasonOf(t, err) == ""; got != want {
		t.Errorf("%s: %q, %s over %q: got %v, want verified %t", c.Type, r.Header, r.URL, r.Body, err, want)
	}
}

// listed reports whether a list of at most 16 elements contains the valid signature
// with a prefix, in hexadecimal of any case or in base64.
func listed(header, separator, prefix string, sum []byte, inBase64 bool) bool {
	items, found := strings.Split(header, separator), false
	for _, item := range items {
		item = strings.Trim(item, " \t")
		hexed := strings.HasPrefix(item, prefix) && strings.EqualFold(strings.TrimPrefix(item, prefix), hex.EncodeToString(sum))
		found = found || (!inBase64 && hexed) || (inBase64 && item == prefix+base64.StdEncoding.EncodeToString(sum))
	}
	return found && len(items) <= maxCandidates
}

func FuzzHMAC(f *testing.F) {
	for _, h := range []string{"", "p={sig}", "{sig}", "p=", "p=00, p={sig}", "p={sig},", "P={sig}", "p={sig}0", " p={sig} ", strings.Repeat(",", 15) + "p={sig}"} {
		f.Add(h, []byte("body"), false)
		f.Add(h, []byte{}, true)
	}
	f.Fuzz(func(t *testing.T, header string, body []byte, inBase64 bool) {
		c := Config{Type: "hmac", Header: "X-Sig", Prefix: "p=", Secrets: []string{"other", "secret"}}
		if inBase64 {
			c.Encoding = "base64"
		}
		sum := macOf("sha256", []byte("secret"), string(body))
		header = strings.ReplaceAll(header, "{sig}", encodeAs(c.Encoding, sum))
		agree(t, c, &Request{Header: http.Header{"X-Sig": {header}}, Body: body}, listed(header, ",", "p=", sum, inBase64))
	})
}

func FuzzHash(f *testing.F) {
	f.Add("{sig}", "POST", "https://h.example/", []byte("{}"), "v1")
	f.Add("{sig}", "POST", "https://h.example/", []byte("body"), "v1")
	f.Add("{sig}", "POST", "https://h.example/?{", []byte("[]"), "v1")
	f.Add("{sig};00", "", "", []byte{}, "v1")
	f.Add("00;{sig}", "GET", "x", []byte{}, "v2")
	f.Fuzz(func(t *testing.T, header, method, url string, body []byte, version string) {
		c := Config{Type: "hash", Header: "X-Sig", Separator: ";", Signed: "{method}{url}{body}", Algorithm: "sha1", Secrets: []string{"secret"},
			RequireHeaders: map[string]string{"X-Version": "v1"}}
		h := plainHash("sha1")()
		h.Write([]byte("secret" + method + url + string(body)))
		sum := h.Sum(nil)
		header = strings.ReplaceAll(header, "{sig}", hex.EncodeToString(sum))
		r := &Request{Method: method, URL: url, Header: http.Header{"X-Sig": {header}, "X-Version": {version}}, Body: body}
		apart := !strings.ContainsAny(url, "{}\"<> ") && (len(body) == 0 || regexp.MustCompile(`(?s)^(\{.*\}|\[.*\])[ \t\r\n]*$`).Match(body))
		agree(t, c, r, url != "" && apart && version == "v1" && listed(header, ";", "", sum, false))
	})
}

var secondsText = regexp.MustCompile(`^[0-9]{1,12}$`)

// inTime reports whether a text is a timestamp within 300 s of at.
func inTime(stamp string, at int64) bool {
	signedAt, _ := strconv.ParseInt(stamp, 10, 64)
	return secondsText.MatchString(stamp) && at-signedAt <= 300 && signedAt-at <= 300
}

func FuzzTimestampedHMAC(f *testing.F) {
	for _, h := range []string{"", "t=1000,v1={sig}", "v1={sig}", "t=1000,v0={sig}", "t=1000,t=1000,v1={sig}", "t=+1000,v1={sig}", "t=99999999999999999999,v1={sig}", " t=1000 , v1={sig},v1=00", "t=,v1={sig}"} {
		f.Add(h, []byte("body"), int64(1000))
		f.Add(h, []byte{}, int64(1301))
	}
	f.Fuzz(func(t *testing.T, header string, body []byte, at int64) {
		at %= 1 << 50 // time.Unix overflows for larger numbers
		stamp, times := "", 0
		for _, item := range strings.Split(header, ",") {
			item = strings.Trim(item, " \t")
			if item == "t" || strings.HasPrefix(item, "t=") {
				stamp, times = strings.TrimPrefix(strings.TrimPrefix(item, "t"), "="), times+1
			}
		}
		sig := hexMAC("secret", stamp+"."+string(body))
		header = strings.ReplaceAll(header, "{sig}", sig)
		found, proposed := false, 0
		for _, item := range strings.Split(header, ",") {
			item = strings.Trim(item, " \t")
			if item == "v1" || strings.HasPrefix(item, "v1=") {
				proposed++
				found = found || strings.EqualFold(item, "v1="+sig)
			}
		}
		want := found && proposed <= maxCandidates && times == 1 && inTime(stamp, at)
		c := Config{Type: "timestamped_hmac", Header: "X-Sig", Secrets: []string{"secret", "other"}}
		agree(t, c, &Request{Header: http.Header{"X-Sig": {header}}, Body: body, At: time.Unix(at, 0)}, want)
	})
}

func FuzzStandardWebhooks(f *testing.F) {
	for _, h := range []string{"", "v1,{sig}", "v1a,{pub}", "v1,{pub} v1a,{sig}", "v1,AAAA v1,{sig}", "v1a,AAAA v1a,{pub}", "{sig}", "v1,{sig},", " v1,{sig} ", "v1,{sig}\tv1", strings.Repeat(" ", 16) + "v1,{sig}"} {
		f.Add(h, "msg_1", "1000", []byte("body"), int64(1000))
		f.Add(h, "", "1000", []byte{}, int64(1301))
	}
	f.Fuzz(func(t *testing.T, header, id, stamp string, body []byte, at int64) {
		at %= 1 << 50
		message := id + "." + stamp + "." + string(body)
		mac := macOf("sha256", []byte("secret"), message)
		public := privateSignature(t, "ed25519", message)
		header = strings.NewReplacer("{sig}", base64.StdEncoding.EncodeToString(mac), "{pub}", base64.StdEncoding.EncodeToString(public)).Replace(header)
		plain := len(id) <= 256 && !regexp.MustCompile("[][{}\"]").MatchString(id)
		want := plain && inTime(stamp, at) && (listed(header, " ", "v1,", mac, true) || listedAmongFour(header, " ", "v1a,", public))
		c := Config{Type: "standard_webhooks", Secrets: []string{"secret"}, SecretEncoding: "text", PublicKeys: []string{publicText(pairs().ed)}}
		r := &Request{Header: http.Header{"Webhook-Signature": {header}, "Webhook-Id": {id}, "Webhook-Timestamp": {stamp}}, Body: body, At: time.Unix(at, 0)}
		agree(t, c, r, want)
	})
}

// listedAmongFour is listed for Ed25519 in base64: of the signatures with the right
// length, only the first four are checked.
func listedAmongFour(header, separator, prefix string, sig []byte) bool {
	tried := 0
	for _, item := range strings.Split(header, separator) {
		text, ok := strings.CutPrefix(strings.Trim(item, " \t"), prefix)
		raw, err := base64.StdEncoding.DecodeString(text)
		if ok && err == nil && len(raw) == len(sig) && base64.StdEncoding.EncodeToString(raw) == text {
			if tried++; tried <= 4 && string(raw) == string(sig) {
				return listed(header, separator, prefix, sig, true)
			}
		}
	}
	return false
}

func FuzzPublicKey(f *testing.F) {
	for _, h := range []string{"", "{sig}", "{sig} {sig}", "AAAA {sig}", "{sig}=", " {sig}", strings.Repeat("x ", 16) + "{sig}"} {
		f.Add(h, "1000", []byte("body"), int64(1000))
		f.Add(h, "", []byte{}, int64(1301))
	}
	f.Fuzz(func(t *testing.T, header, stamp string, body []byte, at int64) {
		at %= 1 << 50
		sig := privateSignature(t, "ed25519", stamp+string(body))
		header = strings.ReplaceAll(header, "{sig}", base64.StdEncoding.EncodeToString(sig))
		c := Config{Type: "public_key", Header: "X-Sig", Separator: " ", Encoding: "base64", TimestampHeader: "X-Time", PublicKeys: []string{publicText(pairs().ed)}}
		r := &Request{Header: http.Header{"X-Sig": {header}, "X-Time": {stamp}}, Body: body, At: time.Unix(at, 0)}
		apart := len(body) == 0 || !strings.ContainsRune("0123456789", rune(body[0]))
		agree(t, c, r, apart && inTime(stamp, at) && listedAmongFour(header, " ", "", sig))
	})
}

func FuzzURLForm(f *testing.F) {
	for _, body := range []string{"", "a=1&b=2", "b=2&a=1&a=1&a=0", "a", "a=%zz", "a;b", "%C3%BC=+", "=&&="} {
		f.Add("{sig}", uint8(0), uint8(0), "in?x=1", body, true)
		f.Add("{sig}", uint8(1), uint8(5), "", body, true)
		f.Add("{sig}", uint8(4), uint8(2), "?bodySHA256={sum}", body, false)
	}
	ports := []string{"https://h.example", "https://h.example:443", "https://h.example:8443", "http://h.example", "http://h.example:80"}
	f.Fuzz(func(t *testing.T, header string, sent, signed uint8, rest, body string, isForm bool) {
		sum := plainHash("sha256")()
		sum.Write([]byte(body))
		rest = "/" + strings.ReplaceAll(rest, "{sum}", hex.EncodeToString(sum.Sum(nil)))
		sentURL, signedURL := ports[int(sent)%len(ports)]+rest, ports[int(signed)%len(ports)]+rest
		u, urlErr := neturl.Parse(sentURL)
		values, formErr := neturl.ParseQuery(body)
		message, good := signedURL, urlErr == nil
		hash := ""
		if urlErr == nil {
			parameters := strings.Split(u.RawQuery, "&")
			hash = parameters[len(parameters)-1]
		}
		if !strings.HasPrefix(hash, "bodySHA256=") || strings.Count(u.RawQuery, "bodySHA256=") != 1 {
			hash = ""
		}
		switch {
		case hash != "" && !isForm:
			good = good && strings.EqualFold(hash[len("bodySHA256="):], hex.EncodeToString(sum.Sum(nil)))
		case !isForm:
			good = false
		default:
			good = good && formErr == nil
			for _, pair := range plainPairs(values) {
				message += pair
			}
		}
		mac := macOf("sha1", []byte("secret"), message)
		header = strings.ReplaceAll(header, "{sig}", base64.StdEncoding.EncodeToString(mac))
		same := strings.TrimSuffix(strings.TrimSuffix(ports[int(sent)%len(ports)], ":443"), ":80") == strings.TrimSuffix(strings.TrimSuffix(ports[int(signed)%len(ports)], ":443"), ":80")
		c := Config{Type: "url_form_hmac", Header: "X-Sig", Algorithm: "sha1", Encoding: "base64", Secrets: []string{"secret"}}
		r := &Request{Method: http.MethodPost, URL: sentURL, Header: http.Header{"X-Sig": {header}}, Body: []byte(body)}
		if isForm {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		agree(t, c, r, good && same && listed(header, ",", "", mac, true))
	})
}

// plainPairs returns the distinct pairs of name and value, sorted.
func plainPairs(values neturl.Values) (pairs []string) {
	type pair struct{ name, value string }
	var all []pair
	for name, list := range values {
		for _, value := range list {
			if !slices.Contains(all, pair{name, value}) {
				all = append(all, pair{name, value})
			}
		}
	}
	slices.SortFunc(all, func(a, b pair) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	for _, p := range all {
		pairs = append(pairs, p.name+p.value)
	}
	return pairs
}

func FuzzBasicAuth(f *testing.F) {
	for _, h := range []string{"", "Basic {sig}", "basic  {sig}", "Basic{sig}", "Bearer {sig}", "Basic {sig}=", "Basic dTpw\n", "Basic"} {
		f.Add(h, "user", "pass")
		f.Add(h, "u", "p:q")
	}
	f.Fuzz(func(t *testing.T, header, username, password string) {
		c := Config{Type: "basic_auth", Username: username, Password: password}
		if len(c.Validate()) > 0 {
			return
		}
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(username, password)
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		header = strings.ReplaceAll(header, "{sig}", token)
		name, rest, found := strings.Cut(header, " ")
		want := found && strings.EqualFold(name, "Basic") && strings.TrimLeft(rest, " ") == token
		agree(t, c, &Request{Header: http.Header{"Authorization": {header}}}, want)
	})
}

func FuzzAPIKey(f *testing.F) {
	for _, query := range []string{"", "token=key", "token=old&token=old", "token=k%65y", "a=1;token=key", "TOKEN=key", "?token=key"} {
		f.Add("key", query, "key", "old", true)
		f.Add("Bearer old", query, "key", "old", true)
		f.Add("ke", query, "key", "old", false)
	}
	f.Fuzz(func(t *testing.T, sent, query, first, second string, withHeader bool) {
		c := Config{Type: "api_key", Header: "X-Key", Prefix: "Bearer ", Query: "token", Values: []string{first, second}}
		if len(c.Validate()) > 0 {
			return
		}
		known := func(s string) bool { return s != "" && (s == first || s == second) }
		r := &Request{URL: "https://h.example/in?" + query, Header: http.Header{}}
		values, err := neturl.ParseQuery(query)
		want := err == nil && len(values["token"]) == 1 && known(values.Get("token"))
		if withHeader {
			r.Header["X-Key"] = []string{sent}
			want = len(sent) > 7 && strings.EqualFold(sent[:7], "Bearer ") && known(sent[7:])
		}
		agree(t, c, r, want)
	})
}

// FuzzNone checks that the type none accepts every request.
func FuzzNone(f *testing.F) {
	f.Add("X", "y", []byte("body"))
	f.Fuzz(func(t *testing.T, name, value string, body []byte) {
		agree(t, Config{Type: "none"}, &Request{Header: http.Header{name: {value}}, Body: body}, true)
	})
}
