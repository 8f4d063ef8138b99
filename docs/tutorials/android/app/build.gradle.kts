plugins {
    id("com.android.application") version "8.13.0"
}

android {
    namespace = "org.example.translate"
    compileSdk = 36

    defaultConfig {
        applicationId = "org.example.translate"
        minSdk = 33 // InputStream.readAllBytes, ByteArrayOutputStream.writeBytes
        targetSdk = 36
        versionCode = 1
        versionName = "1.0"
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }

    androidResources {
        noCompress += "tflite"
    }
}

dependencies {
    implementation("com.google.ai.edge.litert:litert:1.4.0")
}
