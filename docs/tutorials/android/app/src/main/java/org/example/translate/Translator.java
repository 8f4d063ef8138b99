package org.example.translate;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.tensorflow.lite.Interpreter;

/** Translates with a LiteRT export of keras_transformer; the beam search is inside the model. */
public final class Translator implements AutoCloseable {
  private final Interpreter interpreter;
  private final SentencePiece source, target;
  private final int maxSourceLength, extraLength;

  /**
   * @param model the content of `model.tflite`, in a direct buffer.
   * @param maxSourceLength,extraLength the limits of `translation.json`.
   */
  public Translator(
      ByteBuffer model,
      SentencePiece source,
      SentencePiece target,
      int maxSourceLength,
      int extraLength) {
    interpreter = new Interpreter(model, new Interpreter.Options().setNumThreads(4));
    this.source = source;
    this.target = target;
    this.maxSourceLength = maxSourceLength;
    this.extraLength = extraLength;
  }

  /** Returns the translation of a sentence. It takes a while: call it on a thread of your own. */
  public synchronized String translate(String sentence) {
    int[] ids = source.encode(sentence);
    if (ids.length == 0) {
      return "";
    }
    int length = Math.min(ids.length, maxSourceLength - 1) + extraLength + 1;
    Map<String, Object> inputs = new HashMap<>();
    inputs.put("input_ids", new int[][] {ids});
    inputs.put("input_lengths", new int[] {ids.length});
    int[][] outputIds = new int[1][length];
    int[] outputLengths = new int[1];
    Map<String, Object> outputs = new HashMap<>();
    outputs.put("output_ids", outputIds);
    outputs.put("output_lengths", outputLengths);
    outputs.put("scores", new float[1]);
    interpreter.runSignature(inputs, outputs, "translate_one");
    return target.decode(Arrays.copyOf(outputIds[0], outputLengths[0]));
  }

  @Override
  public void close() {
    interpreter.close();
  }
}
