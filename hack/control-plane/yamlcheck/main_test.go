package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func records(documents ...string) string {
	var b strings.Builder
	for _, d := range documents {
		fmt.Fprintf(&b, "%d\n%s", len(d), d)
	}
	return b.String()
}

func TestRun(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"empty document", records(""), "null\n"},
		{"mapping", records("b: 1\na: [x, null]\n"), `{"a":["x",null],"b":1}` + "\n"},
		{"what YAML 1.1 reads as boolean", records("v: yes"), `{"v":true}` + "\n"},
		{"number beyond 64 bits signed", records("v: 12345678901234567890"), `{"v":12345678901234567890}` + "\n"},
		{"escapes as encoding/json gives them", records("v: <&>"), `{"v":"\u003c\u0026\u003e"}` + "\n"},
		{"two records, no newline between", records("a: 1", "b: 2"), "{\"a\":1}\n{\"b\":2}\n"},
		{"length counts bytes", records("a: ä", "b: 2"), "{\"a\":\"ä\"}\n{\"b\":2}\n"},
		{
			"an error does not stop the next record",
			records("a: 1\na: 2\n", "b: 2"),
			"!error: yaml: unmarshal errors: line 2: key \"a\" already set in map\n{\"b\":2}\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := run(strings.NewReader(c.in), &out); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("got %q, want %q", out.String(), c.want)
			}
		})
	}
}

func TestRunBrokenStream(t *testing.T) {
	for _, in := range []string{"3", "x\n", "-1\n", "3\nab", "99999999999\n"} {
		var out bytes.Buffer
		if err := run(strings.NewReader(records("a: 1")+in), &out); err == nil {
			t.Errorf("%q: no error", in)
		}
		if want := "{\"a\":1}\n"; out.String() != want {
			t.Errorf("%q: got %q before the error, want %q", in, out.String(), want)
		}
	}
}
