// Files of recorded games of Daihinmin.

// Reads a file up to a line, and returns this line.
export async function nthLine(file, wanted) {
  const isPacked = file.name.endsWith(".gz");
  const stream = isPacked ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let n = 1; ;) {
    const { value, done } = await reader.read().catch(() => {
      throw new Error(`${file.name} must be ${isPacked ? "packed by gzip" : "a text file"}, and is not.`);
    });
    const lines = (rest + (value || "")).split("\n");
    rest = lines.pop();
    for (const line of done && rest ? [...lines, rest] : lines) {
      if (n === wanted) return line;
      n += 1;
    }
    if (done)
      throw new Error(
        n === 1
          ? `${file.name} must have a game in each line, and is empty.`
          : `Game number must be a whole number from 1 to ${n - 1}, the lines of ${file.name}, got ${wanted}`,
      );
  }
}

// The recorded game of a line.
export function gameOf(line, name) {
  try {
    return JSON.parse(line);
  } catch {
    throw new Error(
      `Each line of ${name} must be a recorded game as JSON, as afterstate serve writes it, got ${JSON.stringify(line.slice(0, 60))}`,
    );
  }
}
