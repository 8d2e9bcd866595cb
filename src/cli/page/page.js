const given = JSON.parse(document.getElementById("data").textContent);
const place = document.querySelector("main");

async function show() {
  for (const name of given ? [] : ["nodes", "latency", "locks"]) {
    const answer = await fetch(`/api/${name}`);
    place.append(document.createElement("pre"));
    place.lastChild.textContent = await answer.text();
  }
}

show();
