// Decodes a List of Kubernetes strictly: each item has to be of a kind below, and each member one
// of its type.
package main

import (
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"
)

// decode returns how many items the list has.
func decode(text []byte) (int, error) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, core.AddToScheme, policy.AddToScheme} {
		if err := add(kinds); err != nil {
			return 0, err
		}
	}
	strict := serializer.NewCodecFactory(kinds, serializer.EnableStrict).UniversalDeserializer()
	var list core.List
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return 0, err
	}
	for _, item := range list.Items {
		if _, _, err := strict.Decode(item.Raw, nil, nil); err != nil {
			return 0, fmt.Errorf("%w in %s", err, item.Raw)
		}
	}
	return len(list.Items), nil
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	count := 0
	if err == nil {
		count, err = decode(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d objects of Kubernetes are right\n", count)
}
