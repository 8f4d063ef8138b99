package org.example.translate;

import android.app.Activity;
import android.os.Bundle;
import android.widget.Button;
import android.widget.EditText;
import android.widget.LinearLayout;
import android.widget.TextView;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.json.JSONArray;
import org.json.JSONException;
import org.json.JSONObject;

/** A text field, a button, and the translation below. */
public final class MainActivity extends Activity {
  private final ExecutorService worker = Executors.newSingleThreadExecutor();
  private Translator translator; // used only by the worker

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    EditText sentence = new EditText(this);
    sentence.setHint("A sentence");
    Button button = new Button(this);
    button.setText("Translate");
    TextView translation = new TextView(this);
    translation.setTextSize(20);
    LinearLayout column = new LinearLayout(this);
    column.setOrientation(LinearLayout.VERTICAL);
    column.setFitsSystemWindows(true);
    column.addView(sentence);
    column.addView(button);
    column.addView(translation);
    setContentView(column);
    button.setOnClickListener(
        view -> {
          String text = sentence.getText().toString();
          button.setEnabled(false);
          worker.execute(
              () -> {
                String result = translated(text);
                runOnUiThread(
                    () -> {
                      translation.setText(result);
                      button.setEnabled(true);
                    });
              });
        });
  }

  private String translated(String text) {
    try {
      if (translator == null) {
        translator = load();
      }
      return translator.translate(text);
    } catch (IOException | JSONException | RuntimeException error) {
      return error.toString();
    }
  }

  /** Reads the files of the export, which are the app's assets. */
  private Translator load() throws IOException, JSONException {
    String json = new String(asset("translation.json"), StandardCharsets.UTF_8);
    JSONObject settings = new JSONObject(json);
    SentencePiece source = tokenizer(settings.getJSONObject("source"));
    SentencePiece target = tokenizer(settings.getJSONObject("target"));
    byte[] bytes = asset("model.tflite");
    ByteBuffer model = ByteBuffer.allocateDirect(bytes.length).order(ByteOrder.nativeOrder());
    model.put(bytes).rewind();
    JSONObject limits = settings.getJSONObject("limits");
    return new Translator(
        model, source, target, limits.getInt("max_source_length"), limits.getInt("extra_length"));
  }

  private SentencePiece tokenizer(JSONObject side) throws IOException, JSONException {
    byte[] model = asset(side.getString("tokenizer"));
    if (side.isNull("vocabulary")) {
      return new SentencePiece(model);
    }
    // An imported model has its own ids: positions in a list of pieces.
    byte[] json = asset(side.getString("vocabulary"));
    JSONArray list = new JSONArray(new String(json, StandardCharsets.UTF_8));
    List<String> pieces = new ArrayList<>();
    for (int i = 0; i < list.length(); i++) {
      pieces.add(list.getString(i));
    }
    int unknown = side.getJSONObject("special_tokens").getInt("unk");
    return new SentencePiece(model, pieces, unknown, side.getBoolean("right_to_left"));
  }

  private byte[] asset(String name) throws IOException {
    try (InputStream file = getAssets().open(name)) {
      return file.readAllBytes();
    }
  }

  @Override
  protected void onDestroy() {
    worker.execute(
        () -> {
          if (translator != null) {
            translator.close();
          }
        });
    worker.shutdown();
    super.onDestroy();
  }
}
